#include "memory/memory_plan.h"

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "global/shared_tuples.h"
#include "memory/owned_bytes.h"
#include "memory/ring_cell.h"
#include "tests/doubles/manual_clock.h"
#include "weir/limiter.h"

namespace weir::memory {
namespace {

TEST(MemoryPlan, DerivesTheMissingValues) {
  const MemoryPlan usual = memory_plan(Options{});
  EXPECT_EQ(usual.capacity, size_t{1} << 17);
  EXPECT_EQ(usual.memory, uint64_t{1} << 27);
  EXPECT_EQ(memory_plan(Options{.memory = uint64_t{1} << 29}).capacity, size_t{1} << 19);
  EXPECT_EQ(memory_plan(Options{.memory = uint64_t{1} << 44}).capacity, kMaxCapacity);
  EXPECT_EQ(memory_plan(Options{.capacity = 1}).memory, uint64_t{1} << 20);
  const MemoryPlan shared = memory_plan(Options{.ledger = make_null_ledger()});
  EXPECT_EQ(shared.capacity, size_t{1} << 17);
  EXPECT_EQ(shared.memory, uint64_t{1} << 28);
  const MemoryPlan both = memory_plan(Options{.capacity = 100, .memory = 1 << 24});
  EXPECT_EQ(both.capacity, 100u);
  EXPECT_EQ(both.memory, uint64_t{1} << 24);
}

TEST(MemoryPlan, HasSpaceForARingPerTupleByDefault) {
  for (const size_t capacity :
       {size_t{1}, size_t{64}, size_t{1000}, size_t{1} << 17, size_t{1} << 20, kMaxCapacity}) {
    const MemoryPlan plan = memory_plan(Options{.capacity = capacity});
    EXPECT_EQ(error_in(plan), std::nullopt) << capacity;
    ByteBudget budget(plan.memory);
    limit_annexes(budget, plan);
    budget.reserve_fixed(MemoryPart::kTable, min_memory(capacity));
    EXPECT_TRUE(budget.has_space(MemoryPart::kBuffers, capacity * heap_bytes(sizeof(RingBuffer))))
        << capacity;
  }
}

TEST(MemoryPlan, HasSpaceForTheCountsOfOtherRegionsOnAllTuplesByDefault) {
  constexpr size_t kTuples = 1000;
  const MemoryPlan plan = memory_plan(Options{.ledger = make_null_ledger(), .capacity = kTuples});
  ByteBudget budget(plan.memory);
  budget.reserve_fixed(MemoryPart::kTable, min_memory(kTuples));
  global::SharedTuples shared("here", &budget);
  const base::MutexLock lock(shared.mutex());
  const base::KeyedHash hash(7);
  // Entries of evicted tuples stay until the end of a window.
  for (size_t i = 0; i < kTuples + kTuples * 3 / 4; ++i) {
    const std::string name = std::to_string(i) + std::string(30, 'x');
    global::SharedTuple* const entry = shared.obtain(
        {{.ns = "api", .identifier = name, .limit = 1, .duration = Millis(60'000)}, hash});
    ASSERT_NE(entry, nullptr) << i;
    for (const int64_t sequence : {10, 11}) {
      const auto merged = shared.merge(
          *entry, sequence, {.region = "there", .sequence = sequence, .count = 1, .limit_seen = 1});
      ASSERT_EQ(merged, global::SharedTuples::Merge::kChanged) << i;
    }
  }
}

TEST(MemoryPlan, RefusesTooLittleMemoryAndReportsTheMinimum) {
  const Options options{.capacity = 100'000, .memory = 1 << 20};
  const auto error = weir::error_in(options);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->field, "memory");
  EXPECT_EQ(error->detail, "memory is 1048576 bytes, too little for a capacity of 100000");
  EXPECT_EQ(error->fix.find("give it at least "), 0u);
  EXPECT_NE(error->fix.find("MiB, or choose a capacity of at most "), std::string::npos);
  EXPECT_EQ(weir::error_in({.capacity = 100'000, .memory = min_memory(100'000)}), std::nullopt);
  EXPECT_NE(weir::error_in({.capacity = 100'000, .memory = min_memory(100'000) - 1}), std::nullopt);
  // If no capacity fits, the error names none.
  EXPECT_EQ(weir::error_in({.memory = 1000})->fix.find("capacity"), std::string::npos);
}

TEST(MemoryPlan, ALimiterWithTheMinimumCountsInItsTable) {
  const doubles::ManualClock clock;
  Limiter limiter =
      Limiter::create(clock, {.capacity = 1000, .memory = min_memory(1000), .seed = 1}).value();
  const Request window{.ns = "a", .identifier = "b", .limit = 1, .duration = Millis(1000)};
  EXPECT_EQ(limiter.check(window)->basis, Basis::kLocal);
  Request ring = window;
  ring.algorithm = Algorithm::kSlidingWindowStrict;
  EXPECT_EQ(limiter.check(ring)->basis, Basis::kDegraded);
  EXPECT_LE(limiter.stats().memory.used(), limiter.stats().memory.limit);
}

}  // namespace
}  // namespace weir::memory
