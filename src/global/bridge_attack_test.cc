// Attacks on the exported bound and on the bridge. Each of them has succeeded once.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "global/bridge_fixture_test.h"
#include "global/shared_region_fixture_test.h"
#include "memory/tuple_key.h"
#include "origins/in_process_origin.h"

namespace weir::global {
namespace {

class Attack : public SharedRegion {
 protected:
  static double bound(const TestRegion& place, const std::string& ns = "api") {
    return place.limiter->sync_stats().bound_of({}, ns);
  }
  // One region uses up a limit of an hour. Much later another one does, as far as it can.
  void expect_bound_of_both(TestRegion& first, TestRegion& last) {
    const int64_t before = ask_times(first, 200);
    pass(Millis(60'000));
    const int64_t after = ask_times(last, 200);
    EXPECT_LE(static_cast<double>(before + after), bound(last) * 100);
  }
};

// Imports succeed, and nobody learns what the others have not published.
TEST_F(Attack, AReadOnlyLedgerWidensTheBound) {
  duration_ = Millis(3'600'000);
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(25'000));
  for (TestRegion* each : {&east, &west}) each->ledger->refuse_writes();
  pass(Millis(1000));
  expect_bound_of_both(east, west);
}

// It does not learn that the rows of another region wait.
TEST_F(Attack, ARegionWhoseHeartbeatsFailWidensItsBound) {
  duration_ = Millis(3'600'000);
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(25'000));
  west.ledger->refuse_writes();
  east.ledger->cut();
  expect_bound_of_both(east, west);
}

// The allowance is halved again, and nobody evaluates a tuple that no process holds.
TEST_F(Attack, AnEvictedTupleWidensTheBoundAfterAFlood) {
  duration_ = Millis(3'600'000);
  const SyncRules rules{.rows_per_second = 200};
  TestRegion& one = add_process(rules);
  const origins::InProcessOrigin west_origin(clock_);
  TestRegion& west = add("west", west_origin.another_endpoint(), rules);
  pass(Millis(25'000));
  // A flood of keys.
  for (int i = 0; i < 800; ++i) {
    identifier_ = "flood-" + std::to_string(i);
    ask(one, 96);
  }
  pass(Millis(5000));
  identifier_ = "alice";
  ASSERT_EQ(ask_times(one, 90), 90);
  pass(Millis(500));
  for (int i = 0; i < 3000; ++i) {
    identifier_ = "other-" + std::to_string(i);
    ask(one, 95);
    if (i % 10 == 0) pass(Millis(20));
  }
  pass(Millis(180'000));
  identifier_ = "alice";
  const int64_t after = ask_times(west, 200);
  EXPECT_LE(static_cast<double>(90 + after), bound(west) * 100);
}

// The clock of the survivor was behind when it noticed the death, and is corrected.
TEST_F(Attack, ADeathWidensTheBoundWhateverTheClockSaid) {
  duration_ = Millis(3'600'000);
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  TestRegion& west = add("west");
  for (auto& each : endpoints_) each->nodes = 2;
  auto first = std::move(one.limiter);
  Millis behind{-3 * 3'600'000};
  const auto pass_both = [&](Millis time) {
    for (Millis passed{0}; passed < time; passed += Millis(10)) {
      pass(Millis(10));
      Instant now = clock_.now();
      now.wall += behind;
      first->run_replay(now, executor_);
      first->run_sync(now);
      executor_.run();
    }
  };
  pass_both(Millis(25'000));
  Instant wrong = clock_.now();
  wrong.wall += behind;
  (void)first->check(wrong, request());  // so that it knows of windows of an hour
  pass_both(Millis(1000));
  const int64_t before = ask_times(two, 200);
  kill(two);  // before it replayed
  pass_both(Millis(3000));
  endpoints_[0]->nodes = 1;
  pass_both(Millis(5000));
  EXPECT_NEAR(bound(west), 2, 0.01);
  behind = Millis(0);
  pass_both(Millis(60'000));
  const int64_t after = ask_times(west, 200);
  EXPECT_LE(static_cast<double>(before + after), bound(west) * 100);
}

// The bridge can read and not write; a sibling reports another namespace.
TEST_F(Attack, ASiblingDoesNotHideThatTheBridgeIsSilent) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  TestRegion& west = add("west");
  for (auto& each : endpoints_) each->nodes = 2;
  pass(Millis(25'000));
  ASSERT_TRUE(one.limiter->sync_stats().bridge);
  one.ledger->refuse_writes();
  const auto use = [&](TestRegion& place, const std::string& ns) {
    int64_t admitted = 0;
    for (int i = 0; i < 100; ++i) {
      Result<Verdict> verdict;
      place.limiter->check_async(
          clock_.now(),
          {.ns = ns, .identifier = "alice", .limit = 100, .duration = Millis(3'600'000)}, executor_,
          [&](Result<Verdict> answer) { verdict = std::move(answer); });
      executor_.run();
      admitted += verdict->admitted() ? 1 : 0;
    }
    return admitted;
  };
  ASSERT_EQ(use(one, "hidden"), 100);
  ASSERT_EQ(use(two, "reported"), 100);
  pass(Millis(60'000));
  EXPECT_NEAR(bound(west, "reported"), 2, 0.01);
  const int64_t after = use(west, "hidden");
  EXPECT_LE(static_cast<double>(100 + after), bound(west, "hidden") * 100);
}

// A replica whose clock is behind takes over, and a region cannot reach it.
TEST_F(Attack, ARegionIsSilentAlsoIfTheClockOfTheLedgerWasSetBack) {
  ManualClock database;
  store_ = std::make_shared<MemoryLedger>(database);
  const auto pass_all = [&](Millis time) {
    for (Millis passed{0}; passed < time; passed += Millis(10)) {
      database.advance(Millis(10));
      pass(Millis(10));
    }
  };
  duration_ = Millis(3'600'000);
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass_all(Millis(25'000));
  // A replica whose clock is behind takes over, and east cannot reach it.
  database.step_wall(Millis(-600'000));
  east.ledger->cut();
  const int64_t before = ask_times(east, 200);
  pass_all(Millis(60'000));
  const int64_t after = ask_times(west, 200);
  EXPECT_LE(static_cast<double>(before + after), bound(west) * 100);
}

// Records are kept for a minute, by the clock of the store.
TEST_F(Attack, AProcessWhoseClockIsAheadDeletesNoRecords) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  pass(Millis(10'000));
  ASSERT_TRUE(one.limiter->sync_stats().bridge);
  // The clock of the second process is two hours ahead. It loses its connection for a moment.
  auto second = std::move(two.limiter);
  const auto pass_both = [&](Millis time) {
    for (Millis passed{0}; passed < time; passed += Millis(10)) {
      pass(Millis(10));
      Instant now = clock_.now();
      now.wall += Millis(7'200'000);
      second->run_replay(now, executor_);
      second->run_sync(now);
      executor_.run();
    }
  };
  pass_both(Millis(10'000));
  ++endpoints_[1]->lost_data;
  pass_both(Millis(1000));
  const auto backup = store_->snapshot();
  ask_times(one, 60);
  pass_both(Millis(20'000));
  ASSERT_EQ(row("east"), 60U);
  // The ledger loses the last 20 s.
  store_->restore(*backup);
  pass_both(Millis(10'000));
  EXPECT_GT(one.limiter->sync_stats().lost, 0U);
  EXPECT_EQ(row("east"), 60U);
}

// After the ledger lost the last rows, one of those that are repeated is locked.
TEST_F(Attack, ALockedRowAmongTheRepeatedOnesBlocksNoOther) {
  duration_ = Millis(3'600'000);
  TestRegion& east = add_process();
  add("west");
  const auto in_ledger = [&](const std::string& identifier) {
    for (const LedgerRow& row : store_->contents()) {
      if (row.region == "east" && row.key.identifier == identifier) return row.count;
    }
    return Count{0};
  };
  pass(Millis(25'000));
  const auto backup = store_->snapshot();
  identifier_ = "stuck";
  ask_times(east, 60);
  pass(Millis(1000));
  ASSERT_EQ(in_ledger("stuck"), 60U);
  store_->restore(*backup);
  east.ledger->lock_rows_of("stuck");
  pass(Millis(1000));
  identifier_ = "other";
  ask_times(east, 60);
  Millis waited{0};
  for (; in_ledger("other") == 0 && waited < Millis(300'000); waited += Millis(500)) {
    pass(Millis(500));
  }
  EXPECT_LE(waited, Millis(2000));
}

class BridgeAttack : public BridgeFixture {};

// Right after they were repeated.
TEST_F(BridgeAttack, RowsAreRepeatedAgainIfTheLedgerLosesThemAgain) {
  ledger_->heartbeat({.region = "here"}, {}, [](const auto&) {});
  auto one = make_process("one");
  pass(Millis(5000), {one.get()});
  const auto backup = ledger_->snapshot();
  replay("alice", 60, Due::kNow);
  pass(Millis(1000), {one.get()});
  ASSERT_EQ(in_ledger("alice"), 60U);
  ledger_->restore(*backup);
  for (int i = 0; i < 300 && in_ledger("alice") == 0; ++i) pass(Millis(10), {one.get()});
  ASSERT_EQ(in_ledger("alice"), 60U);
  ledger_->restore(*backup);
  pass(Millis(5000), {one.get()});
  replay("bob", 60, Due::kNow);
  pass(Millis(5000), {one.get()});
  EXPECT_EQ(in_ledger("bob"), 60U);
  EXPECT_EQ(in_ledger("alice"), 60U);
}

// Smaller reports that are still wide follow a large one, which expires.
TEST_F(Attack, ALargeReportDoesNotHideASmallerOneThatFollows) {
  const auto east = store_->another_client();
  const auto west = store_->another_client();
  east->heartbeat({.region = "east",
                   .unpublished_ppm = 250'000,
                   .namespaces = {{.workspace = "", .ns = "api", .unpublished_ppm = 2'000'000}}},
                  {}, [](const auto&) {});
  for (int i = 1; i < 300; ++i) {
    clock_.advance(Millis(100));
    if (i % 20 == 0) {
      east->heartbeat(
          {.region = "east",
           .unpublished_ppm = 250'000,
           .namespaces = {{.workspace = "", .ns = "api", .unpublished_ppm = 1'000'000}}},
          {}, [](const auto&) {});
    }
    west->heartbeat({.region = "west"}, {}, [&](const Result<LedgerFleet>& fleet) {
      EXPECT_GE(fleet->regions.at(0).unpublished_in("", "api"), 1'000'000U) << i;
    });
  }
}

// An old report expires, and the healthy process is the first to send another.
TEST_F(Attack, AHealthyProcessDoesNotHideAFailingOne) {
  const auto bridge = store_->another_client();
  const auto failing = store_->another_client();
  const auto west = store_->another_client();
  const auto report = [&](auto& client, uint64_t ppm) {
    client->heartbeat({.region = "east", .unpublished_ppm = ppm}, {}, [](const auto&) {});
  };
  report(failing, 3'000'000);
  for (int i = 1; i < 300; ++i) {
    clock_.advance(Millis(100));
    if (i % 20 == 0) report(failing, 1'000'000);  // all the time, every 2 s
    if (i % 20 == 15) report(bridge, 250'000);
    west->heartbeat({.region = "west"}, {}, [&](const Result<LedgerFleet>& fleet) {
      EXPECT_GE(fleet->regions.at(0).unpublished_ppm, 1'000'000U) << i;
    });
  }
}

}  // namespace
}  // namespace weir::global
