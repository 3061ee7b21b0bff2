// Tuples that own much memory stay within the byte budget, err on the strict side, and report it.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <string>
#include <vector>

#include "base/split_mix.h"
#include "decide/engine.h"
#include "ledgers/memory_ledger.h"
#include "tests/doubles/manual_clock.h"
#include "tests/effort.h"

namespace weir::decide {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

Request large_log(std::string_view identifier, Count cost = 1) {
  return {.ns = "api",
          .identifier = identifier,
          .limit = kMaxLogLimit,
          .duration = Millis(60'000),
          .cost = cost,
          .algorithm = Algorithm::kSlidingLog};
}

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

class MemoryBudget : public ::testing::Test {
 protected:
  std::shared_ptr<Engine> engine(uint64_t memory, size_t capacity = 4096) {
    return Engine::make(clock_, Options{.capacity = capacity, .memory = memory, .seed = 1});
  }
  doubles::ManualClock clock_;
};

TEST_F(MemoryBudget, HoldsForAnyRequestsOnLargeLogs) {
  const uint64_t before = resident_bytes();
  const auto engine = this->engine(16 * kMebibyte);
  int degraded = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto verdict = engine->check(clock_.now(), large_log("user-" + std::to_string(i)));
    ASSERT_TRUE(verdict->admitted());
    degraded += verdict->basis == Basis::kDegraded;
    ASSERT_LE(engine->stats().memory.used(), 16 * kMebibyte);
  }
  const LimiterStats stats = engine->stats();
  EXPECT_EQ(stats.memory.limit, 16 * kMebibyte);
  EXPECT_GT(stats.memory.annexes, 8 * kMebibyte);
  EXPECT_GT(stats.tuples, 50u);
  EXPECT_EQ(degraded, 3000 - static_cast<int>(stats.tuples));
  EXPECT_EQ(stats.no_memory, static_cast<uint64_t>(degraded));
  EXPECT_EQ(stats.sketched, stats.no_memory);
  // By the resident memory, too, which was 393 MB. The rest is for the process itself.
  const uint64_t besides = (kSanitized ? 200 : 32) * kMebibyte;
  EXPECT_LE(resident_bytes() - std::min(before, resident_bytes()), 16 * kMebibyte + besides);
}

TEST_F(MemoryBudget, LeavesOtherTuplesTheirSlots) {
  const auto engine = this->engine(8 * kMebibyte);
  for (int i = 0; i < 1000; ++i) {
    (void)engine->check(clock_.now(), large_log("user-" + std::to_string(i)));
  }
  ASSERT_GT(engine->stats().no_memory, 0u);
  const std::string long_name(400, 'x');
  for (const std::string& name : {std::string("short"), long_name}) {
    for (const Algorithm algorithm :
         {Algorithm::kSlidingWindow, Algorithm::kFixedWindow, Algorithm::kGcra}) {
      Request request = large_log(name);
      request.algorithm = algorithm;
      EXPECT_EQ(engine->check(clock_.now(), request)->basis, Basis::kLocal) << to_string(algorithm);
    }
  }
  // The first logs are in the table, and exact.
  const auto verdict = engine->check(clock_.now(), large_log("user-0"));
  EXPECT_EQ(verdict->basis, Basis::kLocal);
  EXPECT_EQ(verdict->remaining, kMaxLogLimit - 2);
}

// The admissions of one log, checked against its contract.
struct Admissions {
  std::deque<std::pair<WallTime, Count>> recent{};
  Count sum = 0;

  void add(WallTime now, Count cost) {
    recent.emplace_back(now, cost);
    sum += cost;
    while (recent.front().first <= now - Millis(60'000)) {
      sum -= recent.front().second;
      recent.pop_front();
    }
  }
};

TEST_F(MemoryBudget, AdmitsNoMoreThanTheLimitInAnyWindowInTableOrSketch) {
  // Space for about ten of forty; they expire, and others get their slots.
  const auto engine = this->engine(4 * kMebibyte);
  std::vector<Admissions> users(40);
  uint64_t seed = 3;
  const auto draw = [&](uint64_t below) { return base::split_mix(seed) % below; };
  int local = 0;
  int degraded = 0;
  for (int i = 0; i < 60'000; ++i) {
    clock_.advance(Millis(draw(40)));
    if (draw(4000) == 0) clock_.advance(Millis(100'000));
    const size_t user = draw(users.size());
    const Count cost = draw(1500) + 1;
    const auto verdict =
        engine->check(clock_.now(), large_log("user-" + std::to_string(user), cost));
    if (i % 100 == 0) engine->run_sweep(clock_.now(), 1000);
    if (!verdict->admitted()) continue;
    ++(verdict->basis == Basis::kDegraded ? degraded : local);
    users[user].add(clock_.now().wall, cost);
    ASSERT_LE(users[user].sum, kMaxLogLimit) << i;
  }
  EXPECT_GT(local, 1000);
  EXPECT_GT(degraded, 1000);
}

TEST_F(MemoryBudget, GivesALogItsMemoryOnceOthersHaveExpiredWithoutASweep) {
  const auto engine = this->engine(4 * kMebibyte);
  for (int i = 0; i < 100; ++i) {
    (void)engine->check(clock_.now(), large_log("old-" + std::to_string(i)));
  }
  ASSERT_EQ(engine->check(clock_.now(), large_log("new"))->basis, Basis::kDegraded);
  clock_.advance(Millis(180'000));
  int attempts = 0;
  for (Basis basis = Basis::kDegraded; basis == Basis::kDegraded && attempts < 1000; ++attempts) {
    basis = engine->check(clock_.now(), large_log("new-" + std::to_string(attempts)))->basis;
  }
  EXPECT_LT(attempts, 1000);
}

TEST_F(MemoryBudget, ReportsALogThatCannotGrowAndKeepsItsEntries) {
  const auto engine = this->engine(4 * kMebibyte);
  Request small = large_log("alice", 100);
  small.limit = 100;
  ASSERT_TRUE(engine->check(clock_.now(), small)->admitted());
  for (int i = 0; i < 100; ++i) {
    (void)engine->check(clock_.now(), large_log("user-" + std::to_string(i)));
  }
  const auto verdict = engine->check(clock_.now(), large_log("alice"));
  EXPECT_TRUE(verdict->admitted());
  EXPECT_EQ(verdict->basis, Basis::kDegraded);
  EXPECT_EQ(verdict->evidence.own, 100u);
  EXPECT_EQ(verdict->remaining, 26u);  // of the 127 that it can hold
  EXPECT_EQ(engine->check(clock_.now(), large_log("alice", 0))->basis, Basis::kDegraded);
  const auto batch = engine->check_all(clock_.now(), std::vector{large_log("alice", 26)});
  EXPECT_TRUE(batch->admitted());
  EXPECT_EQ(batch->items[0].basis, Basis::kDegraded);
  EXPECT_FALSE(engine->check(clock_.now(), large_log("alice"))->admitted());
  const auto denied = engine->check(clock_.now(), small);
  EXPECT_FALSE(denied->admitted());
  EXPECT_EQ(denied->basis, Basis::kLocal);
  // Once there is space the log grows and keeps its entries.
  clock_.advance(Millis(59'000));
  ASSERT_FALSE(engine->check(clock_.now(), small)->admitted());
  clock_.advance(Millis(1000));
  for (int i = 0; i < 3; ++i) engine->run_sweep(clock_.now(), 10'000);
  EXPECT_EQ(engine->check(clock_.now(), large_log("alice"))->basis, Basis::kLocal);
}

TEST_F(MemoryBudget, HoldsForABatchOfLargeLogs) {
  const auto engine = this->engine(4 * kMebibyte);
  std::vector<std::string> names;
  for (size_t i = 0; i < kMaxBatch; ++i) names.push_back("user-" + std::to_string(i));
  std::vector<Request> requests;
  for (const std::string& name : names) requests.push_back(large_log(name, kMaxLogLimit));
  const auto all = engine->check_all(clock_.now(), requests);
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(all->admitted());
  int degraded = 0;
  for (const Verdict& item : all->items) degraded += item.basis == Basis::kDegraded;
  EXPECT_GT(degraded, 50);
  EXPECT_LT(degraded, 100);
  EXPECT_LE(engine->stats().memory.used(), 4 * kMebibyte);
  for (const std::string& name : names) {
    EXPECT_FALSE(engine->check(clock_.now(), large_log(name))->admitted());
  }
}

// A ledger with rows of another region on more tuples of this process than there is memory for.
TEST_F(MemoryBudget, HoldsForAnyNumberOfTuplesThatOtherRegionsCount) {
  const auto ledger = std::make_shared<ledgers::MemoryLedger>(clock_);
  // The memory that an origin would need is free for the shared tuples: about 1.1 MB.
  const uint64_t memory = memory::min_memory(16'384);
  const auto engine = Engine::make(
      clock_,
      Options{.ledger = ledger, .region = "here", .capacity = 16'384, .memory = memory, .seed = 1});
  ledger->heartbeat({.region = "there"}, {}, [](const Result<LedgerFleet>&) {});
  const int64_t sequence = clock_.now().wall.time_since_epoch() / Millis(60'000);
  const auto ask = [&](const std::string& name, Count cost) {
    const Request request{
        .ns = "api", .identifier = name, .limit = 10, .duration = Millis(60'000), .cost = cost};
    return engine->check(clock_.now(), request)->admitted();
  };
  std::vector<LedgerRow> rows;
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "theirs-" + std::to_string(i);
    ASSERT_TRUE(ask(name, 1));
    rows.push_back(
        {.key = {.workspace = "", .ns = "api", .identifier = name, .duration = Millis(60'000)},
         .sequence = sequence,
         .region = "there",
         .count = 1,
         .limit_seen = 10});
  }
  ledger->publish("there", {}, std::move(rows),
                  [](const Result<FeedPosition>& written) { ASSERT_TRUE(written.ok()); });
  const auto share = [&] {
    for (int round = 0; round < 300; ++round) {
      clock_.advance(Millis(10));
      engine->run_sync(clock_.now());
      engine->run_sweep(clock_.now(), 4096);
      ASSERT_LE(engine->stats().memory.used(), memory);
    }
  };
  share();
  EXPECT_GT(engine->stats().memory.regions, kMebibyte / 2);
  EXPECT_GT(engine->sync_stats().keys, 1000u);
  EXPECT_LT(engine->sync_stats().keys, 10'000u);
  // Rows for which there was no memory count as left out and widen the bound.
  EXPECT_GT(engine->sync_stats().left_out, 1000u);
  EXPECT_GE(engine->sync_stats().bound, 2.0);
  const uint64_t left_out = engine->sync_stats().left_out;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(ask("ours-" + std::to_string(i), 10));
  share();
  EXPECT_GT(engine->sync_stats().left_out, left_out);
  // Once those windows end there is space again: an entry outlives its tuple by a window at most.
  clock_.advance(Millis(180'000));
  share();
  clock_.advance(Millis(60'000));
  share();
  EXPECT_LT(engine->stats().memory.regions, kMebibyte / 4);
}

}  // namespace
}  // namespace weir::decide
