// What regions publish and import, and when.

#include "global/region_sync.h"
#include "base/mutex.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "global/region_sync_fixture_test.h"
#include "ledgers/rows.h"
#include "origins/in_process_origin.h"

namespace weir::global {
namespace {

TEST_F(RegionSyncTest, CountsTheAcceptedCostsOfOneRegionInTheOther) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(1000));
  EXPECT_EQ(ask_times(east, 60), 60);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 60U);
  EXPECT_EQ(foreign(west), 60U);
  EXPECT_EQ(ask_times(west, 100), 40);
}

TEST_F(RegionSyncTest, SumsOverRegions) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  TestRegion& north = add("north");
  pass(Millis(1000));
  ask_times(east, 30);
  ask_times(west, 30);
  pass(Millis(2000));
  EXPECT_EQ(foreign(north), 60U);
  EXPECT_EQ(ask_times(north, 100), 40);
}

// When the feeds of thirty regions began with their first rows, each was read whole, one after
// another, while the regions admitted: 7 limits instead of 3 in the first window.
TEST_F(RegionSyncTest, BeginsTheFeedOfARegionBeforeItsFirstRow) {
  TestRegion& east = add("east");
  const auto batches = [&] {
    uint64_t number = 0;
    store_->read_feeds({}, [&](const Result<FeedChanges>& feeds) {
      for (const RegionFeed& feed : feeds->heads) number = std::max(number, feed.at.number);
    });
    return number;
  };
  pass(Millis(5000));
  EXPECT_EQ(batches(), 1U);
  EXPECT_EQ(rows(east), 0U);
  TestRegion& west = add("west");
  pass(Millis(5000));
  const uint64_t full_reads = west.limiter->sync_stats().full_reads;
  ask_times(east, 30);
  pass(Millis(1000));
  EXPECT_EQ(foreign(west), 30U);
  EXPECT_EQ(west.limiter->sync_stats().full_reads, full_reads);
}

TEST_F(RegionSyncTest, ALoneRegionPublishesItsPresenceOnce) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  for (int i = 0; i < 90; ++i) {
    ask(east);
    pass(Millis(100));
  }
  EXPECT_EQ(rows(east), 1U);
  EXPECT_EQ(row("east"), 25U);
}

TEST_F(RegionSyncTest, PublishesAnExhaustedLimit) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 90);
  pass(Millis(1000));
  ask_times(east, 20);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 100U);
  EXPECT_EQ(rows(east), 2U);
  ask_times(east, 50);
  pass(Millis(1000));
  EXPECT_EQ(rows(east), 2U);
}

// Further refusals, between which a sliding window admits a little, once asked for a row each while
// the first row was written.
TEST_F(RegionSyncTest, RefusalsWhileTheFirstIsPublishedAskForNoFurtherRow) {
  algorithm_ = Algorithm::kSlidingWindow;
  limit_ = 1000;
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 1000);
  pass(Millis(100'000));  // the last window now counts for a third
  const uint64_t before = rows(east);
  east.ledger->hold_publishes();
  for (int i = 0; i < 30; ++i) {
    ask_times(east, 700);
    pass(Millis(20));
  }
  east.ledger->release_publishes();
  pass(Millis(1000));
  EXPECT_GT(ask(east, 0).evidence.own, row("east"));
  EXPECT_EQ(rows(east), before + 1);
}

// A lone region with a lease uses its limit and goes idle; then another begins.

TEST_F(RegionSyncTest, CountsARegionThatWentIdle) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(1000));
  ask_times(east, 26);
  pass(Millis(1000));
  ask_times(east, 73);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 26U);
  int64_t admitted = 0;
  for (int i = 0; i < 100; ++i) {
    admitted += ask_times(west, 1);
    pass(Millis(50));
  }
  // 1 + slack, plus west's counts before it published and while its row was in flight.
  EXPECT_LE(99 + admitted, 100 + 10 + 24 + 30);
  EXPECT_EQ(row("east"), 99U);
  EXPECT_EQ(foreign(west), 99U);
}

// A lease covers whole windows: in a window that it does not cover, the region is not present until

// it has published again.

TEST_F(RegionSyncTest, PublishesItsPresenceAgainInAWindowThatItsLeaseDoesNotCover) {
  // It begins in the first half of a window of a minute, so that it ends with the next.
  TestRegion& east = add("east", nullptr, {.lease = Millis(60'000)});
  TestRegion& west = add("west");
  clock_.advance(duration_ - clock_.now().wall.time_since_epoch() % duration_);
  pass(Millis(1000));
  ask_times(east, 30);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 30U);
  const auto leased_until = [this] { return store_->contents()[0].leased_until; };
  EXPECT_EQ(leased_until().time_since_epoch() % duration_, Millis(0));
  EXPECT_EQ(leased_until().time_since_epoch() / duration_,
            clock_.now().wall.time_since_epoch() / duration_ + 2);
  pass(duration_);
  // The lease covers this window: a count below the limit is not published.
  ask_times(east, 60);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 0U);
  EXPECT_EQ(rows(east), 1U);
  // But not the next.
  pass(duration_);
  ask_times(east, 24);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 0U);
  ask_times(east, 1);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 25U);
  EXPECT_EQ(east.limiter->sync_stats().presence, 2U);
  EXPECT_EQ(foreign(west), 25U);
}

// A lease covers whole windows, so a key in use costs at most a row per window or lease, whichever

// is longer.

TEST_F(RegionSyncTest, AKeyInUseCostsAtMostARowPerLeaseAndWindow) {
  const auto rows_per_minute = [this](const SyncRules& rules) {
    regions_.clear();
    store_ = std::make_shared<MemoryLedger>(clock_);
    store_->set_rules(rules);  // a limiter refuses such options, but a ledger may have them
    TestRegion& east = add("east");
    add("west");
    limit_ = 100;
    pass(Millis(5000));
    const uint64_t before = rows(east);
    for (int i = 0; i < 600; ++i) {
      ask(east, 10);
      pass(Millis(100));
    }
    return rows(east) - before;
  };
  duration_ = Millis(1000);
  // A lease of at least seven seconds covers seven or eight windows.
  EXPECT_LE(rows_per_minute({.lease = kMinLease}), 9U);
  EXPECT_GE(rows_per_minute({.lease = kMinLease}), 7U);
  EXPECT_LE(rows_per_minute({.lease = Millis(5000)}), 9U);
  EXPECT_LE(rows_per_minute({.lease = Millis(1)}), 9U);
  EXPECT_LE(rows_per_minute({.lease = Millis(20'000)}), 4U);
  EXPECT_LE(rows_per_minute({}), 1U);
  // The lease ends with a window of a minute: in each of two windows, the presence and the limit
  // that is used up.
  duration_ = Millis(60'000);
  EXPECT_LE(rows_per_minute({.lease = kMinLease}), 4U);
}

TEST_F(RegionSyncTest, PublishesTheRestOfAWindowAfterItsEnd) {
  algorithm_ = Algorithm::kSlidingWindow;
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(1000));
  ask_times(east, 40);
  ask_times(west, 40);
  pass(Millis(2000));
  // Below the threshold by the remainder, above that by the slack alone.
  ask_times(east, 8);
  pass(Millis(3000));
  EXPECT_EQ(row("east"), 40U);
  pass(Millis(60'000));
  EXPECT_EQ(row("east", 1), 48U);
}

TEST_F(RegionSyncTest, AColdOversizedRequestPublishesNothing) {
  TestRegion& east = add("east");
  add("west");
  pass(Millis(1000));
  EXPECT_FALSE(ask(east, 101).admitted());
  pass(Millis(3000));
  EXPECT_TRUE(store_->contents().empty());
  ask_times(east, 1);
  EXPECT_FALSE(ask(east, 100).admitted());
  pass(Millis(3000));
  EXPECT_TRUE(store_->contents().empty());
}

TEST_F(RegionSyncTest, ADenialByTheLastWindowDoesNotLimitOtherRegions) {
  algorithm_ = Algorithm::kSlidingWindow;
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(1000));
  ask_times(east, 100);
  pass(Millis(60'000));
  EXPECT_LT(ask_times(east, 10), 10);
  pass(Millis(2000));
  // East published its accepted count, which is close to 0.
  EXPECT_LT(row("east"), 10U);
  EXPECT_LT(foreign(west), 10U);
}

TEST_F(RegionSyncTest, DoesNotWriteIdleTuplesAgain) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(1000));
  ask_times(east, 60);
  ask_times(west, 30);
  pass(Millis(3000));
  const uint64_t before = rows(east) + rows(west);
  pass(Millis(20'000));
  EXPECT_EQ(rows(east) + rows(west), before);
}

TEST_F(RegionSyncTest, ARestartedRegionImportsItsOwnRows) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 110);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 100U);
  east.limiter = nullptr;
  TestRegion& again = add("east");
  pass(Millis(1000));
  EXPECT_EQ(ask(again, 0).remaining, 0U);  // a peek, before the tuple exists
  const Verdict verdict = ask(again);
  EXPECT_FALSE(verdict.admitted());
  EXPECT_EQ(verdict.evidence.siblings, 100U);
}

TEST_F(RegionSyncTest, DecidesTheFirstRequestOnATupleByImportedCounts) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(1000));
  ask_times(east, 110);
  pass(Millis(1000));
  EXPECT_EQ(west.limiter->sync_stats().imported, 1U);
  EXPECT_EQ(west.limiter->sync_stats().keys, 0U);
  EXPECT_EQ(ask(west, 0).remaining, 0U);  // a peek, which creates nothing
  EXPECT_EQ(west.limiter->sync_stats().keys, 0U);
  EXPECT_EQ(ask_times(west, 10), 0);
  pass(Millis(200));
  EXPECT_EQ(west.limiter->sync_stats().imported, 1U);
}

// Answers everything but clean() and heartbeat(), or everything but reads, from some time on.

// A feed has no gap after a call without a reply: the next round continues where the last one

// ended.

TEST_F(RegionSyncTest, PublishesEverythingAtShutdown) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 30);
  pass(Millis(1000));
  ask_times(east, 20);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 30U);
  east.limiter->run_sync(clock_.now(), Flush::kAll);
  EXPECT_EQ(row("east"), 50U);
  EXPECT_EQ(east.limiter->run_sync(clock_.now(), Flush::kAll).waiting, 0U);
}

TEST_F(RegionSyncTest, MoreRegionsHaveASmallerAllowanceEach) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 20);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 0U);
  for (int i = 0; i < 5; ++i) add("other" + std::to_string(i));
  pass(Millis(8000));
  EXPECT_EQ(row("east"), 20U);
}

TEST_F(RegionSyncTest, ALowerLimitTriggersTheRule) {
  limit_ = 1000;
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 60);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 0U);
  limit_ = 100;
  ask_times(east, 1);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 61U);
}

TEST_F(RegionSyncTest, OneProcessOfARegionWritesForAll) {
  const origins::InProcessOrigin origin(clock_);
  TestRegion& one = add("east", origin.another_endpoint());
  TestRegion& two = add("east", origin.another_endpoint());
  add("west");
  pass(Millis(1000));
  for (int i = 0; i < 40; ++i) {
    ask(one);
    ask(two);
    pass(Millis(50));
  }
  pass(Millis(2000));
  EXPECT_GE(row("east"), 25U);
  EXPECT_LE(rows(one) + rows(two), 3U);
  EXPECT_EQ(std::min(rows(one), rows(two)), 0U);
}

TEST_F(RegionSyncTest, TheFloorPolicyWritesGrowthAtFixedIntervals) {
  const SyncRules rules{.policy = PublishPolicy::kFloor,
                        .publish_every = Millis(10'000),
                        .import_every = Millis(10'000)};
  TestRegion& east = add("east", nullptr, rules);
  TestRegion& west = add("west", nullptr, rules);
  pass(Millis(1000));
  ask_times(east, 49);
  pass(Millis(13'000));
  EXPECT_EQ(row("east"), 0U);
  ask_times(east, 1);
  pass(Millis(13'000));
  EXPECT_EQ(row("east"), 50U);
  pass(Millis(13'000));
  EXPECT_EQ(foreign(west), 50U);
}

TEST_F(RegionSyncTest, AFloodOfNewKeysStaysWithinTheRowBudget) {
  TestRegion& east = add("east", nullptr, {.rows_per_second = 20});
  TestRegion& west = add("west");
  pass(Millis(25'000));
  EXPECT_NEAR(west.limiter->sync_stats().bound, 1.35, 0.001);
  limit_ = 4;
  for (int i = 0; i < 900; ++i) {
    identifier_ = "flood-" + std::to_string(i);
    ask(east);
    if (i % 10 == 0) pass(Millis(50));
  }
  EXPECT_LE(rows(east), 20U + 20U * 6);
  // Waiting rows are unpublished, and the other regions know that.
  EXPECT_GE(west.limiter->sync_stats().bound_of({}, "api"), 1.6 - 0.001);
  EXPECT_NEAR(west.limiter->sync_stats().bound, 1.35, 0.001);
  pass(Millis(10'000));
  EXPECT_LE(rows(east), 20U + 20U * 16);
  pass(Millis(150'000));
  EXPECT_EQ(east.limiter->sync_stats().waiting, 0U);
  EXPECT_NEAR(west.limiter->sync_stats().widest_bound(), 1.35, 0.001);
}

// A batch is never divided: a reply ends after it.

// Regression: a reply with batches after a gap, and more to read, was read for ever.

}  // namespace
}  // namespace weir::global
