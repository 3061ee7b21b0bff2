// Processes that share the origin of their region, and other regions.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "global/bridge_importer.h"
#include "global/shared_region_fixture_test.h"
#include "memory/tuple_key.h"
#include "origins/in_process_origin.h"

namespace weir::global {
namespace {

TEST_F(SharedRegion, HasOneBridge) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  TestRegion& three = add_process();
  for (int i = 0; i < 50; ++i) {
    pass(Millis(100));
    EXPECT_EQ(is_bridge(one) + is_bridge(two) + is_bridge(three), 1) << i;
  }
  EXPECT_TRUE(one.limiter->sync_stats().ready);
  EXPECT_TRUE(two.limiter->sync_stats().ready);
  EXPECT_TRUE(three.limiter->sync_stats().ready);
}

TEST_F(SharedRegion, CountsOfOneProcessReachTheProcessesOfAnotherRegion) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  const origins::InProcessOrigin west_origin(clock_);
  TestRegion& west = add("west", west_origin.another_endpoint());
  TestRegion& west_two = add("west", west_origin.another_endpoint());
  pass(Millis(2000));
  for (TestRegion* east : {&one, &two}) {
    identifier_ = east == &one ? "by-one" : "by-two";
    EXPECT_EQ(ask_times(*east, 60), 60);
    pass(Millis(1000));
    EXPECT_EQ(row("east"), 60U);
    EXPECT_EQ(foreign(west), 60U);
    EXPECT_EQ(foreign(west_two), 60U);
    EXPECT_EQ(ask_times(west_two, 100), 40);
  }
}

// The connections of a new process come up one after the other, and each is a new epoch.
TEST_F(SharedRegion, ANewProcessThatBecomesTheBridgeContinuesAtTheSavedPositions) {
  TestRegion& west = add("west");
  TestRegion& one = add_process();
  pass(Millis(2000));
  ask_times(west, 60);
  pass(Millis(1000));
  TestRegion& two = add_process();
  endpoint(1).connected = false;
  pass(Millis(100));
  endpoint(1).connected = true;
  for (int connections = 0; connections < 2; ++connections) {
    ++endpoint(1).lost_data;
    pass(Millis(300));
  }
  const uint64_t alone = two.limiter->sync_stats().full_reads;
  kill(one);
  pass(Millis(3000));
  ASSERT_TRUE(is_bridge(two));
  EXPECT_TRUE(two.limiter->sync_stats().ready);
  EXPECT_EQ(two.limiter->sync_stats().full_reads, alone);
  EXPECT_EQ(foreign(two), 60U);
  ask_times(west, 50);
  pass(Millis(1000));
  EXPECT_EQ(foreign(two), 100U);
}

TEST_F(SharedRegion, ARowHasTheCountsOfAllProcesses) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  TestRegion& west = add("west");
  pass(Millis(2000));
  ask_times(one, 20);
  ask_times(two, 20);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 40U);
  EXPECT_EQ(foreign(west), 40U);
}

// Every process hears of the counts of other regions without a read of the origin.
TEST_F(SharedRegion, MessagesOfTheBridgeReachAllProcesses) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  TestRegion& west = add("west");
  pass(Millis(2000));
  ask(one);
  ask(two);
  pass(Millis(500));
  const uint64_t reads = endpoint(0).reads + endpoint(1).reads;
  ask_times(west, 60);
  pass(Millis(1000));
  EXPECT_EQ(foreign(one), 60U);
  EXPECT_EQ(foreign(two), 60U);
  EXPECT_EQ(endpoint(0).reads + endpoint(1).reads, reads);
}

TEST_F(SharedRegion, CountsOfAKilledProcessArePublishedWhenAnotherRegionBegins) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  TestRegion& west = add("west");
  pass(Millis(2000));
  // Leased and alone, it need not publish; then it dies.
  ask_times(two, 26);
  pass(Millis(1000));
  ask_times(two, 64);
  pass(Millis(1000));
  ASSERT_EQ(row("east"), 26U);
  kill(two);
  pass(Millis(3000));
  ASSERT_EQ(row("east"), 26U);
  ask_times(west, 30);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 90U);
  EXPECT_EQ(foreign(west), 90U);
  EXPECT_EQ(ask_times(west, 100), 0);
  EXPECT_EQ(ask(one, 0).remaining, 0U);
}

TEST_F(SharedRegion, CountsOfAnEvictedTupleArePublishedWhenAnotherRegionBegins) {
  TestRegion& one = add_process();
  TestRegion& west = add("west");
  pass(Millis(2000));
  ask_times(one, 26);
  pass(Millis(1000));
  ask_times(one, 64);
  pass(Millis(1000));
  ASSERT_EQ(row("east"), 26U);
  const std::string alice = std::exchange(identifier_, "");
  // The table has space for 1024 tuples.
  for (int i = 0; i < 6000; ++i) {
    identifier_ = "other-" + std::to_string(i);
    ask(one);
    if (i % 100 == 0) pass(Millis(10));
  }
  pass(Millis(2000));
  identifier_ = alice;
  ask_times(west, 30);
  pass(Millis(1500));
  EXPECT_EQ(row("east"), 90U);
  EXPECT_EQ(foreign(west), 90U);
}

TEST_F(SharedRegion, AnotherProcessTakesOverWhenTheBridgeIsKilled) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  TestRegion& west = add("west");
  pass(Millis(2000));
  ASSERT_TRUE(is_bridge(one));
  // Counted by both, and due when the bridge dies.
  ask_times(one, 30);
  ask_times(two, 30);
  endpoint(0).reads = 0;
  one.ledger->hold_publishes();
  pass(Millis(500));
  kill(one);
  pass(BridgeImporter::kLease + Millis(1000));
  EXPECT_TRUE(is_bridge(two));
  EXPECT_EQ(row("east"), 60U);
  EXPECT_EQ(foreign(west), 60U);
  ask_times(west, 30);
  pass(Millis(1000));
  EXPECT_EQ(foreign(two), 30U);
}

// The process that takes over has written nothing since it started.
TEST_F(SharedRegion, ATakeOverDoesNotLookLikeALedgerThatRefusesWrites) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  add("west");
  pass(Millis(20'000));
  ASSERT_TRUE(is_bridge(one));
  ASSERT_FALSE(is_bridge(two));
  two.ledger->refuse_writes();
  kill(one);
  for (int i = 0; i < 500 && !is_bridge(two); ++i) pass(Millis(10));
  ASSERT_TRUE(is_bridge(two));
  EXPECT_EQ(two.limiter->sync_stats().write_lag, Nanos(0));
  EXPECT_NE(ask(two).basis, Basis::kDegraded);
  pass(Millis(3500));
  EXPECT_EQ(two.limiter->sync_stats().write_lag, Nanos(0));
  EXPECT_NE(ask(two).basis, Basis::kDegraded);
  pass(Millis(1000));
  EXPECT_GT(two.limiter->sync_stats().write_lag, Millis(4000));
  EXPECT_LT(two.limiter->sync_stats().write_lag, Millis(5000));
  EXPECT_EQ(ask(two).basis, Basis::kDegraded);
}

// Regression: its last report was one of a process that is not the bridge, which reports less
// often, and the next one came so late that the ledger seemed to refuse writes.
TEST_F(SharedRegion, AProcessThatBecomesTheBridgeReportsAsOftenAsOne) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  add("west");
  pass(Millis(2000));
  ask_times(one, 1);
  ask_times(two, 1);
  // Both miss rows, which they report until their windows are over.
  one.ledger->cut();
  two.ledger->cut();
  pass(Millis(4000));
  one.ledger->restore();
  two.ledger->restore();
  pass(Millis(2000));
  TestRegion& bridge = is_bridge(one) ? one : two;
  TestRegion& other = is_bridge(one) ? two : one;
  const uint64_t before = other.ledger->heartbeats();
  for (int i = 0; i < 1000 && other.ledger->heartbeats() == before; ++i) pass(Millis(10));
  ASSERT_FALSE(is_bridge(other));
  ASSERT_GT(other.ledger->heartbeats(), before);
  while (bridge.limiter->run_sync(clock_.now(), Flush::kAll).waiting > 0) clock_.advance(Millis(1));
  kill(bridge);
  pass(Millis(350));
  ASSERT_TRUE(is_bridge(other));
  for (int i = 0; i < 100; ++i) {
    pass(Millis(50));
    EXPECT_EQ(other.limiter->sync_stats().write_lag, Nanos(0));
  }
}

TEST_F(SharedRegion, AnotherProcessTakesOverAtOnceWhenTheBridgeStops) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  pass(Millis(2000));
  ASSERT_TRUE(is_bridge(one));
  while (one.limiter->run_sync(clock_.now(), Flush::kAll).waiting > 0) clock_.advance(Millis(1));
  kill(one);
  pass(Millis(350));
  EXPECT_TRUE(is_bridge(two));
}

// The last process of a region publishes what nobody had to know so far.
TEST_F(SharedRegion, TheLastProcessThatStopsPublishesEverything) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  pass(Millis(2000));
  ask_times(one, 10);
  ask_times(two, 10);
  pass(Millis(1000));
  ASSERT_EQ(row("east"), 0U);
  for (TestRegion* region : {&one, &two}) {
    region->limiter->run_replay(clock_.now(), executor_, Flush::kAll);
    executor_.run();
    (void)region->limiter->run_shutdown(clock_.now());
    int runs = 0;
    while (region->limiter->run_sync(clock_.now(), Flush::kAll).waiting > 0 && ++runs < 100) {
      clock_.advance(Millis(10));
    }
    EXPECT_LT(runs, 100);
    kill(*region);
  }
  EXPECT_EQ(row("east"), 20U);
}

// Regression: the reply to a message of counts made a tuple fresh without the counts that were
// missed.
TEST_F(SharedRegion, AfterAMissedMessageTheNextRequestReads) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  TestRegion& west = add("west");
  pass(Millis(2000));
  ask(two);
  pass(Millis(500));
  endpoint(1).hears_messages = false;
  ask_times(west, 60);
  pass(Millis(1000));
  ASSERT_EQ(foreign(two), 0U);
  endpoint(1).hears_messages = true;
  pass(Millis(300));
  EXPECT_GE(two.limiter->sync_stats().messages_missed, 1U);
  const uint64_t reads = endpoint(1).reads;
  const Verdict verdict = ask(two);
  EXPECT_GT(endpoint(1).reads, reads);
  EXPECT_EQ(verdict.evidence.foreign, 60U);
  EXPECT_EQ(verdict.basis, Basis::kRefreshed);
  // Once.
  const uint64_t after = endpoint(1).reads;
  ask(two);
  EXPECT_EQ(endpoint(1).reads, after);
  (void)one;
}

TEST_F(SharedRegion, AfterAMissedMessageTrafficDoesNotHideWhatWasMissed) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  TestRegion& west = add("west");
  pass(Millis(2000));
  endpoint(1).hears_messages = false;
  for (int i = 0; i < 10; ++i) {
    ask(two);
    if (i == 2) ask_times(west, 40);
    pass(Millis(100));
  }
  endpoint(1).hears_messages = true;
  for (int i = 0; i < 5; ++i) {
    ask(two);
    pass(Millis(100));
  }
  EXPECT_EQ(ask(two).evidence.foreign, 40U);
  (void)one;
}

TEST_F(SharedRegion, EachProcessIsItsOwnBridgeWithoutTheOriginAndHandsBack) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  TestRegion& west = add("west");
  pass(Millis(2000));
  ask_times(one, 30);
  pass(Millis(1000));
  ASSERT_EQ(row("east"), 30U);
  for (const size_t i : {0, 1}) endpoint(i).connected = false;
  pass(Millis(1000));
  EXPECT_TRUE(is_bridge(one));
  EXPECT_TRUE(is_bridge(two));
  // Both publish, as far as each knows.
  identifier_ = "bob";
  ask_times(one, 40);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 40U);
  EXPECT_EQ(foreign(west), 40U);
  // And import.
  identifier_ = "carol";
  ask_times(west, 60);
  pass(Millis(1000));
  EXPECT_EQ(foreign(one), 60U);
  EXPECT_EQ(foreign(two), 60U);
  for (const size_t i : {0, 1}) endpoint(i).connected = true;
  pass(Millis(3000));
  EXPECT_EQ(is_bridge(one) + is_bridge(two), 1);
  EXPECT_TRUE(one.limiter->sync_stats().ready);
  EXPECT_TRUE(two.limiter->sync_stats().ready);
  // What was published and imported meanwhile is at the origin.
  identifier_ = "carol";
  EXPECT_EQ(ask(two).evidence.foreign, 60U);
  identifier_ = "dave";
  ask_times(two, 60);
  pass(Millis(1000));
  EXPECT_EQ(foreign(west), 60U);
}

// Regression: the bridge had not read it, so it did not miss it. The process took it for published.
TEST_F(SharedRegion, WhatTheLedgerLostOfAProcessWithoutTheOriginIsPublishedAgain) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  add("west");
  pass(Millis(2000));
  ASSERT_TRUE(is_bridge(one));
  const auto behind = store_->snapshot();
  one.ledger->cut();
  endpoint(1).connected = false;
  ask_times(two, 60);
  pass(Millis(1000));
  ASSERT_EQ(row("east"), 60U);
  store_->restore(*behind);
  endpoint(1).connected = true;
  one.ledger->restore();
  pass(Millis(3000));
  EXPECT_EQ(row("east"), 60U);
}

TEST_F(SharedRegion, CountsThatBecameDueWhileTheOriginWasLostArePublishedAfterwards) {
  TestRegion& one = add_process();
  add_process();
  TestRegion& west = add("west");
  pass(Millis(2000));
  ask_times(one, 10);
  pass(Millis(1000));
  endpoint(0).connected = endpoint(1).connected = false;
  one.ledger->cut();
  ask_times(one, 50);
  pass(Millis(1000));
  endpoint(0).connected = endpoint(1).connected = true;
  one.ledger->restore();
  pass(Millis(3000));
  EXPECT_EQ(row("east"), 60U);
  EXPECT_EQ(foreign(west), 60U);
}

TEST_F(SharedRegion, AfterTheOriginLostItsDataEverythingIsReadAndToldAgain) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  TestRegion& west = add("west");
  pass(Millis(2000));
  ask_times(one, 20);
  ask_times(west, 40);
  pass(Millis(1000));
  east_->clear();
  ++endpoint(0).lost_data;
  ++endpoint(1).lost_data;
  pass(Millis(2000));
  EXPECT_EQ(is_bridge(one) + is_bridge(two), 1);
  EXPECT_TRUE(two.limiter->sync_stats().ready);
  EXPECT_EQ(ask(two).evidence.foreign, 40U);
  EXPECT_EQ(siblings(ask(two)), 20U);
  ask_times(two, 20);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 42U);
}

TEST_F(SharedRegion, EvictedRegionCountsAreReadAgain) {
  TestRegion& one = add_process();
  TestRegion& west = add("west");
  pass(Millis(2000));
  ask_times(west, 60);
  pass(Millis(1000));
  static const base::KeyedHash hash(7);
  const memory::TupleKey key(request(), hash);
  east_->evict(key.encoded());
  pass(Millis(1500));
  EXPECT_TRUE(one.limiter->sync_stats().ready);
  EXPECT_EQ(ask(one).evidence.foreign, 60U);
}

TEST_F(SharedRegion, MoreRegionsShrinkTheAllowanceOfEveryProcess) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  pass(Millis(2000));
  ask_times(two, 20);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 0U);
  for (int i = 0; i < 5; ++i) add("other" + std::to_string(i));
  pass(Millis(8000));
  EXPECT_EQ(row("east"), 20U);
  EXPECT_EQ(one.limiter->sync_stats().regions, 6U);
  EXPECT_EQ(two.limiter->sync_stats().regions, 6U);
}

TEST_F(SharedRegion, AProcessWithoutTheLedgerStillTakesPart) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  TestRegion& west = add("west");
  pass(Millis(2000));
  ASSERT_TRUE(is_bridge(one));
  two.ledger->cut();
  ask_times(two, 60);
  ask_times(west, 30);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 60U);
  EXPECT_EQ(foreign(two), 30U);
  EXPECT_EQ(ask(two).basis, Basis::kLocal);
  // If the bridge loses the ledger, another process becomes the bridge.
  two.ledger->restore();
  one.ledger->cut();
  pass(Millis(6000));
  EXPECT_TRUE(is_bridge(two));
  identifier_ = "bob";
  ask_times(one, 60);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 60U);
}

// The origin answers after the process has ended.
TEST_F(SharedRegion, AMessageAfterTheEndOfAProcessDoesNoHarm) {
  TestRegion& one = add_process();
  TestRegion& two = add_process();
  pass(Millis(2000));
  ask_times(two, 60);
  pass(Millis(500));
  two.limiter = nullptr;  // its connection lives on
  pass(Millis(3000));
  EXPECT_TRUE(is_bridge(one));
  EXPECT_EQ(ask(one, 0).remaining, 40U);
}

}  // namespace
}  // namespace weir::global
