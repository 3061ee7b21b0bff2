// The memory that tuples own outside their slots stays within the byte budget, and a tuple that
// does not fit loses no count.

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "memory/byte_budget.h"
#include "memory/owned_bytes.h"
#include "memory/table_fixture_test.h"

namespace weir::memory {
namespace {

constexpr size_t kTightCapacity = 4096;
constexpr int64_t kLargestLog = 10'000;
constexpr Millis kOneWindow{60'000};  // the duration of request_for()

Request log_request(std::string_view name, Count limit = kLargestLog) {
  return request_for(name, limit, Algorithm::kSlidingLog);
}

uint64_t buffer_of(const Subject& subject) {
  return owned_bytes(subject.key.header(), subject.query).buffer;
}

// A table with this much space for memory outside the slots.
struct Tight {
  explicit Tight(uint64_t space) : budget(Table::bytes_for(kTightCapacity) + space) {}

  CreateResult create(const Request& request, WallTime at = kNoon) {
    const Subject subject(request, at);
    return table.create(subject.key, subject.query);
  }
  CreateResult rebuild(const Request& request, WallTime at = kNoon) {
    const Subject subject(request, at);
    return table.rebuild(subject.key, subject.query);
  }
  // The second sweep frees the tuples that the first removed.
  void sweep_twice(WallTime now) {
    table.sweep(now, table.slots());
    table.sweep(now, table.slots());
  }

  ByteBudget budget;
  Table table{kTightCapacity, Scope::kProcess, &budget};
};

TEST(TableMemory, KeepsThousandsOfLargeLogsWithinTheBudget) {
  const uint64_t one = buffer_of(Subject(log_request("any")));
  EXPECT_GE(one, 16'384u * 8);
  Tight tight(20 * one + one / 2);
  int created_count = 0;
  for (int i = 0; i < 3000; ++i) {
    const CreateResult created = tight.create(log_request("user-" + std::to_string(i)));
    if (created == CreateResult::kCreated) ++created_count;
    EXPECT_EQ(created, i < 20 ? CreateResult::kCreated : CreateResult::kNoMemory);
    ASSERT_LE(tight.budget.used(), tight.budget.limit());
  }
  EXPECT_EQ(created_count, 20);
  EXPECT_EQ(tight.budget.used(MemoryPart::kBuffers), 20 * one);
  // Tuples that own no memory, or little, still fit.
  EXPECT_EQ(tight.create(request_for("window")), CreateResult::kCreated);
  EXPECT_EQ(tight.create(request_for("bucket", 10, Algorithm::kGcra)), CreateResult::kCreated);
  EXPECT_EQ(tight.create(request_for("ring", 10, Algorithm::kSlidingWindowStrict)),
            CreateResult::kCreated);
  EXPECT_EQ(tight.create(log_request("small", 10)), CreateResult::kCreated);
}

TEST(TableMemory, ChargesNamesThatDoNotFitIntoASlot) {
  Tight tight(10'000);
  const std::string name(512, 'x');
  int created_count = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string full = std::to_string(i + 1000) + name.substr(4);
    const CreateResult created = tight.create(request_for(full));
    if (created == CreateResult::kCreated) ++created_count;
    EXPECT_EQ(created, i + 1 == created_count ? CreateResult::kCreated : CreateResult::kNoMemory);
    ASSERT_LE(tight.budget.used(), tight.budget.limit());
  }
  EXPECT_GE(created_count, 10'000 / 600);
  EXPECT_LE(created_count, 10'000 / 512);
  EXPECT_EQ(tight.create(request_for("short")), CreateResult::kCreated);
}

TEST(TableMemory, ReleasesTheBytesOfExpiredTuples) {
  Tight tight(10 * buffer_of(Subject(log_request("any"))));
  for (int round = 0; round < 5; ++round) {
    const WallTime now = kNoon + round * 3 * kOneWindow;
    for (int i = 0; i < 10; ++i) {
      const std::string name = "user-" + std::to_string(round) + "-" + std::to_string(i);
      EXPECT_EQ(tight.create(log_request(name), now), CreateResult::kCreated) << round;
    }
    EXPECT_EQ(tight.create(log_request("one more"), now), CreateResult::kNoMemory);
    tight.sweep_twice(now + kOneWindow - Millis(1));
    EXPECT_EQ(tight.create(log_request("one more"), now), CreateResult::kNoMemory);
    tight.sweep_twice(now + kOneWindow);
    EXPECT_EQ(tight.budget.used(MemoryPart::kBuffers), 0u);
    EXPECT_EQ(tight.table.stats().tuples, 0u);
  }
}

// Regression: the bytes of a removed tuple were only released when its slot was reused.
TEST(TableMemory, FreesTheMemoryOfARemovedTupleAlthoughItsSlotIsNotReused) {
  Tight tight(1 << 20);
  const std::string name(500, 'x');
  ASSERT_EQ(tight.create(log_request(name, 100)), CreateResult::kCreated);
  EXPECT_GT(tight.budget.used(MemoryPart::kKeys), 0u);
  tight.table.sweep(kNoon + 2 * kOneWindow, tight.table.slots());
  EXPECT_GT(tight.budget.used(MemoryPart::kBuffers), 0u);  // until no reader holds a guard
  {
    const epoch::Guard guard;
    tight.table.sweep(kNoon + 2 * kOneWindow, tight.table.slots());
  }
  tight.table.sweep(kNoon + 2 * kOneWindow, tight.table.slots());
  EXPECT_EQ(tight.budget.used(MemoryPart::kBuffers), 0u);
  EXPECT_EQ(tight.budget.used(MemoryPart::kKeys), 0u);
}

TEST(TableMemory, KeepsTheCountsOfALogThatCannotGrow) {
  Tight tight(4096);
  const Request large = log_request("alice");
  ASSERT_EQ(tight.create(log_request("alice", 5)), CreateResult::kCreated);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(charge(tight.table, Subject(log_request("alice", 5))).decision.admitted());
  }
  ASSERT_EQ(charge(tight.table, Subject(large)).status, DecisionStatus::kRebuild);
  EXPECT_EQ(tight.rebuild(large), CreateResult::kNoMemory);
  // With eight units it decides as if the limit were seven.
  int admitted = 0;
  for (int i = 0; i < 100; ++i) {
    const CellDecision result = charge(tight.table, Subject(large));
    ASSERT_EQ(result.status, DecisionStatus::kDecided);
    admitted += result.decision.admitted();
  }
  EXPECT_EQ(admitted, 2);
  {
    const epoch::Guard guard;
    const LogCell log(tight.table.find(Subject(large).key));
    EXPECT_TRUE(log.is_undersized_for(Subject(large).query));
    EXPECT_FALSE(log.is_undersized_for(Subject(log_request("alice", 7)).query));
  }
  // A cost beyond its size now is denied, but not forever.
  Request whole = large;
  whole.cost = 5000;
  const CellDecision denied = charge(tight.table, Subject(whole));
  EXPECT_EQ(denied.decision.outcome, Outcome::kDenied);
  EXPECT_GT(denied.decision.retry_at, kNoon);
  whole.cost = kLargestLog + 1;
  EXPECT_EQ(charge(tight.table, Subject(whole)).decision.outcome, Outcome::kNever);
}

TEST(TableMemory, LetsALogGrowWithItsCountsOnceThereIsSpace) {
  const Request large = log_request("alice");
  Tight tight(buffer_of(Subject(large)) + 1024);
  ASSERT_EQ(tight.create(log_request("bob")), CreateResult::kCreated);
  ASSERT_EQ(tight.create(log_request("alice", 5), kNoon + kOneWindow / 2), CreateResult::kCreated);
  const WallTime soon = kNoon + kOneWindow / 2;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(charge(tight.table, Subject(log_request("alice", 5), soon)).decision.admitted());
  }
  EXPECT_EQ(tight.rebuild(large, soon), CreateResult::kNoMemory);
  tight.sweep_twice(kNoon + kOneWindow);  // bob
  const WallTime later = kNoon + kOneWindow;
  ASSERT_EQ(charge(tight.table, Subject(large, later)).status, DecisionStatus::kRebuild);
  ASSERT_EQ(tight.rebuild(large, later), CreateResult::kCreated);
  const CellDecision result = charge(tight.table, Subject(large, later));
  EXPECT_EQ(result.evidence.own, 5u);
  EXPECT_EQ(result.decision.remaining, static_cast<Count>(kLargestLog) - 6);
}

TEST(TableMemory, RemovesATupleThatWouldBeResetAfterAClockStepIfNoMemoryIsFree) {
  for (const Algorithm algorithm : {Algorithm::kSlidingLog, Algorithm::kSlidingWindowStrict}) {
    const Request request = request_for("alice", 10, algorithm);
    Tight tight(buffer_of(Subject(request)));
    ASSERT_EQ(tight.create(request), CreateResult::kCreated);
    ASSERT_TRUE(charge(tight.table, Subject(request)).decision.admitted());
    const WallTime back = kNoon - 100 * kOneWindow;
    ASSERT_EQ(charge(tight.table, Subject(request, back)).status, DecisionStatus::kRebuild);
    EXPECT_EQ(tight.rebuild(request, back), CreateResult::kNoMemory);
    EXPECT_FALSE(knows(tight.table, Subject(request, back)));
    EXPECT_EQ(tight.create(request, back), CreateResult::kNoMemory);
    tight.sweep_twice(back);
    EXPECT_EQ(tight.create(request, back), CreateResult::kCreated);
  }
}

TEST(TableMemory, UsesNoBytesAfterThreadsCreatedAndRemovedTuples) {
  const uint64_t space = 300'000;
  ByteBudget budget(Table::bytes_for(256) + space);
  {
    Table table(256, Scope::kProcess, &budget);
    std::atomic<int64_t> minutes{0};
    std::atomic<int> no_memory{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 4000; ++i) {
          const WallTime now = kNoon + minutes.load() * kOneWindow;
          const std::string name =
              std::to_string((i * 31 + t) % 40) + std::string(i % 3 * 100, 'x');
          const Algorithm algorithm =
              i % 2 == 0 ? Algorithm::kSlidingLog : Algorithm::kSlidingWindowStrict;
          const Subject subject(request_for(name, 1 + i * 37 % 2000, algorithm), now);
          CreateResult created = table.create(subject.key, subject.query);
          if (created == CreateResult::kExists) created = table.rebuild(subject.key, subject.query);
          if (created == CreateResult::kNoMemory) ++no_memory;
          (void)charge(table, subject);
          if (i % 50 == t) {
            ++minutes;
            table.sweep(now, table.slots() / 2);
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_GT(no_memory, 0);
    EXPECT_LE(budget.used(), budget.limit());
    EXPECT_GT(table.stats().rebuilt, 0u);
  }
  EXPECT_EQ(budget.used(), 0u);
  for (int part = 0; part < static_cast<int>(MemoryPart::kCount); ++part) {
    EXPECT_EQ(budget.used(static_cast<MemoryPart>(part)), 0u) << part;
  }
}

}  // namespace
}  // namespace weir::memory
