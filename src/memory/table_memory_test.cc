// What tuples own outside their slots stays within the byte budget, and what does not fit loses no
// count.

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

Request log_request(std::string_view name, int64_t limit = kLargestLog) {
  return request_for(name, limit, Algorithm::kSlidingLog);
}

uint64_t annex_of(const Subject& subject) {
  return owned_bytes(subject.key.header(), subject.query).annex;
}

// A table with this much room for what tuples own.
struct Tight {
  explicit Tight(uint64_t room) : budget(Table::bytes_for(kTightCapacity) + room) {}

  Created create(const Request& request, WallTime at = kNoon) {
    const Subject subject(request, at);
    return table.create(subject.key, subject.query);
  }
  Created rebuild(const Request& request, WallTime at = kNoon) {
    const Subject subject(request, at);
    return table.rebuild(subject.key, subject.query);
  }
  // What the first sweep forgets, the second frees.
  void sweep_twice(WallTime now) {
    table.sweep(now, table.slots());
    table.sweep(now, table.slots());
  }

  ByteBudget budget;
  Table table{kTightCapacity, Scope::kProcess, &budget};
};

TEST(TableMemory, KeepsThousandsOfLargeLogsWithinTheBudget) {
  const uint64_t one = annex_of(Subject(log_request("any")));
  EXPECT_GE(one, 16'384u * 8);
  Tight tight(20 * one + one / 2);
  int made = 0;
  for (int i = 0; i < 3000; ++i) {
    const Created created = tight.create(log_request("user-" + std::to_string(i)));
    if (created == Created::kYes) ++made;
    EXPECT_EQ(created, i < 20 ? Created::kYes : Created::kNoMemory);
    ASSERT_LE(tight.budget.used(), tight.budget.limit());
  }
  EXPECT_EQ(made, 20);
  EXPECT_EQ(tight.budget.used(Part::kAnnexes), 20 * one);
  // What owns nothing has a place, and so has what owns little.
  EXPECT_EQ(tight.create(request_for("window")), Created::kYes);
  EXPECT_EQ(tight.create(request_for("bucket", 10, Algorithm::kGcra)), Created::kYes);
  EXPECT_EQ(tight.create(request_for("ring", 10, Algorithm::kSlidingWindowStrict)), Created::kYes);
  EXPECT_EQ(tight.create(log_request("small", 10)), Created::kYes);
}

TEST(TableMemory, CountsNamesThatDoNotFitIntoASlot) {
  Tight tight(10'000);
  const std::string name(512, 'x');
  int made = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string full = std::to_string(i + 1000) + name.substr(4);
    const Created created = tight.create(request_for(full));
    if (created == Created::kYes) ++made;
    EXPECT_EQ(created, i + 1 == made ? Created::kYes : Created::kNoMemory);
    ASSERT_LE(tight.budget.used(), tight.budget.limit());
  }
  EXPECT_GE(made, 10'000 / 600);
  EXPECT_LE(made, 10'000 / 512);
  EXPECT_EQ(tight.create(request_for("short")), Created::kYes);
}

TEST(TableMemory, GivesBytesBackOnceWhatTheyWereForHasExpired) {
  Tight tight(10 * annex_of(Subject(log_request("any"))));
  for (int round = 0; round < 5; ++round) {
    const WallTime now = kNoon + round * 3 * kOneWindow;
    for (int i = 0; i < 10; ++i) {
      const std::string name = "user-" + std::to_string(round) + "-" + std::to_string(i);
      EXPECT_EQ(tight.create(log_request(name), now), Created::kYes) << round;
    }
    EXPECT_EQ(tight.create(log_request("one more"), now), Created::kNoMemory);
    tight.sweep_twice(now + kOneWindow - Millis(1));
    EXPECT_EQ(tight.create(log_request("one more"), now), Created::kNoMemory);
    tight.sweep_twice(now + kOneWindow);
    EXPECT_EQ(tight.budget.used(Part::kAnnexes), 0u);
    EXPECT_EQ(tight.table.stats().tuples, 0u);
  }
}

// The bytes of a forgotten tuple came back only when its slot was wanted again.
TEST(TableMemory, FreesWhatAForgottenTupleOwnedAlthoughNobodyWantsItsSlot) {
  Tight tight(1 << 20);
  const std::string name(500, 'x');
  ASSERT_EQ(tight.create(log_request(name, 100)), Created::kYes);
  EXPECT_GT(tight.budget.used(Part::kKeys), 0u);
  tight.table.sweep(kNoon + 2 * kOneWindow, tight.table.slots());
  EXPECT_GT(tight.budget.used(Part::kAnnexes), 0u);  // until readers have let go of it
  {
    const epoch::Guard guard;
    tight.table.sweep(kNoon + 2 * kOneWindow, tight.table.slots());
  }
  tight.table.sweep(kNoon + 2 * kOneWindow, tight.table.slots());
  EXPECT_EQ(tight.budget.used(Part::kAnnexes), 0u);
  EXPECT_EQ(tight.budget.used(Part::kKeys), 0u);
}

TEST(TableMemory, LosesNoCountOfALogThatCannotGrow) {
  Tight tight(4096);
  const Request large = log_request("alice");
  ASSERT_EQ(tight.create(log_request("alice", 5)), Created::kYes);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(charge(tight.table, Subject(log_request("alice", 5))).decision.admitted());
  }
  ASSERT_EQ(charge(tight.table, Subject(large)).status, DecisionStatus::kRebuild);
  EXPECT_EQ(tight.rebuild(large), Created::kNoMemory);
  // Eight units long, it goes on as if the limit were seven.
  int admitted = 0;
  for (int i = 0; i < 100; ++i) {
    const CellDecision step = charge(tight.table, Subject(large));
    ASSERT_EQ(step.status, DecisionStatus::kDecided);
    admitted += step.decision.admitted();
  }
  EXPECT_EQ(admitted, 2);
  {
    const epoch::Guard guard;
    const LogCell log(tight.table.find(Subject(large).key));
    EXPECT_TRUE(log.falls_short_of(Subject(large).query));
    EXPECT_FALSE(log.falls_short_of(Subject(log_request("alice", 7)).query));
  }
  // Too much for it now is not too much for ever.
  Request whole = large;
  whole.cost = 5000;
  const CellDecision denied = charge(tight.table, Subject(whole));
  EXPECT_EQ(denied.decision.outcome, Outcome::kDenied);
  EXPECT_GT(denied.decision.retry_at, kNoon);
  whole.cost = kLargestLog + 1;
  EXPECT_EQ(charge(tight.table, Subject(whole)).decision.outcome, Outcome::kNever);
}

TEST(TableMemory, LetsALogGrowWithItsCountsOnceThereIsRoom) {
  const Request large = log_request("alice");
  Tight tight(annex_of(Subject(large)) + 1024);
  ASSERT_EQ(tight.create(log_request("bob")), Created::kYes);
  ASSERT_EQ(tight.create(log_request("alice", 5), kNoon + kOneWindow / 2), Created::kYes);
  const WallTime soon = kNoon + kOneWindow / 2;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(charge(tight.table, Subject(log_request("alice", 5), soon)).decision.admitted());
  }
  EXPECT_EQ(tight.rebuild(large, soon), Created::kNoMemory);
  tight.sweep_twice(kNoon + kOneWindow);  // bob
  const WallTime later = kNoon + kOneWindow;
  ASSERT_EQ(charge(tight.table, Subject(large, later)).status, DecisionStatus::kRebuild);
  ASSERT_EQ(tight.rebuild(large, later), Created::kYes);
  const CellDecision step = charge(tight.table, Subject(large, later));
  EXPECT_EQ(step.evidence.own, 5u);
  EXPECT_EQ(step.decision.remaining, static_cast<Count>(kLargestLog) - 6);
}

TEST(TableMemory, ForgetsWhatBeginsAnewAnywayWhenAClockWasSetBackAndNothingIsFree) {
  for (const Algorithm algorithm : {Algorithm::kSlidingLog, Algorithm::kSlidingWindowStrict}) {
    const Request request = request_for("alice", 10, algorithm);
    Tight tight(annex_of(Subject(request)));
    ASSERT_EQ(tight.create(request), Created::kYes);
    ASSERT_TRUE(charge(tight.table, Subject(request)).decision.admitted());
    const WallTime back = kNoon - 100 * kOneWindow;
    ASSERT_EQ(charge(tight.table, Subject(request, back)).status, DecisionStatus::kRebuild);
    EXPECT_EQ(tight.rebuild(request, back), Created::kNoMemory);
    EXPECT_FALSE(knows(tight.table, Subject(request, back)));
    EXPECT_EQ(tight.create(request, back), Created::kNoMemory);
    tight.sweep_twice(back);
    EXPECT_EQ(tight.create(request, back), Created::kYes);
  }
}

TEST(TableMemory, LeavesTheAccountAtNothingAfterThreadsMadeAndForgotTuples) {
  const uint64_t room = 300'000;
  ByteBudget budget(Table::bytes_for(256) + room);
  {
    Table table(256, Scope::kProcess, &budget);
    std::atomic<int64_t> minutes{0};
    std::atomic<int> refused{0};
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
          Created created = table.create(subject.key, subject.query);
          if (created == Created::kPresent) created = table.rebuild(subject.key, subject.query);
          if (created == Created::kNoMemory) ++refused;
          (void)charge(table, subject);
          if (i % 50 == t) {
            ++minutes;
            table.sweep(now, table.slots() / 2);
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_GT(refused, 0);
    EXPECT_LE(budget.used(), budget.limit());
    EXPECT_GT(table.stats().rebuilt, 0u);
  }
  EXPECT_EQ(budget.used(), 0u);
  for (int part = 0; part < static_cast<int>(Part::kCount); ++part) {
    EXPECT_EQ(budget.used(static_cast<Part>(part)), 0u) << part;
  }
}

}  // namespace
}  // namespace weir::memory
