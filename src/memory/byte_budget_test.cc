#include "memory/byte_budget.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace weir::memory {
namespace {

TEST(ByteBudget, RefusesWhatDoesNotFitAndThenReservesNothing) {
  ByteBudget budget(100);
  EXPECT_TRUE(budget.reserve(Part::kAnnexes, 60));
  EXPECT_FALSE(budget.reserve(Part::kKeys, 41));
  EXPECT_FALSE(budget.reserve(Part::kKeys, ~uint64_t{0}));
  EXPECT_EQ(budget.used(Part::kKeys), 0u);
  EXPECT_EQ(budget.used(), 60u);
  EXPECT_TRUE(budget.has_room(Part::kKeys, 40));
  EXPECT_FALSE(budget.has_room(Part::kKeys, 41));
  EXPECT_TRUE(budget.reserve(Part::kKeys, 40));
  budget.give_back(Part::kAnnexes, 60);
  EXPECT_EQ(budget.used(Part::kAnnexes), 0u);
  EXPECT_EQ(budget.used(), 40u);
}

TEST(ByteBudget, KeepsAPartToItsOwnBound) {
  ByteBudget budget(100);
  budget.bound(Part::kAnnexes, 75);
  EXPECT_FALSE(budget.reserve(Part::kAnnexes, 76));
  EXPECT_TRUE(budget.reserve(Part::kAnnexes, 75));
  EXPECT_FALSE(budget.has_room(Part::kAnnexes, 1));
  EXPECT_TRUE(budget.reserve(Part::kRegions, 25));
  EXPECT_EQ(budget.used(), 100u);
}

TEST(ByteBudget, NeverExceedsItsLimitHoweverManyThreadsReserve) {
  constexpr uint64_t kLimit = 1000;
  ByteBudget budget(kLimit);
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Part part = t % 2 == 0 ? Part::kAnnexes : Part::kKeys;
      for (uint64_t i = 0; i < 20'000; ++i) {
        const uint64_t bytes = 100 + (i * 7 + t) % 300;
        if (!budget.reserve(part, bytes)) continue;
        if (budget.used() > kLimit) exceeded = true;
        budget.give_back(part, bytes);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(budget.used(Part::kAnnexes), 0u);
  EXPECT_EQ(budget.used(Part::kKeys), 0u);
}

TEST(HeapBytes, AreNoFewerThanAnAllocationTakes) {
  for (const size_t size : {1u, 8u, 24u, 25u, 64u, 256u, 1000u, 1536u, 8192u, 65'536u, 131'064u,
                            131'072u, 131'080u, 200'000u}) {
    const std::unique_ptr<char[]> memory(new char[size]);
    // What may be used of a chunk, and its header.
    EXPECT_GE(heap_bytes(size), malloc_usable_size(memory.get()) + sizeof(size_t)) << size;
    EXPECT_LE(heap_bytes(size), size + 32 + (size < 131'072 ? 0 : 4096)) << size;
  }
}

}  // namespace
}  // namespace weir::memory
