// What regions publish and import, and when.

#include "global/region_sync.h"
#include "base/mutex.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "global/region_sync_fixture_test.h"
#include "ledgers/rows.h"

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
  EXPECT_TRUE(store_->contents().rows.empty());
  ask_times(east, 1);
  EXPECT_FALSE(ask(east, 100).admitted());
  pass(Millis(3000));
  EXPECT_TRUE(store_->contents().rows.empty());
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
  EXPECT_EQ(west.limiter->sync_stats().keys_received, 1U);
  EXPECT_EQ(ask(west, 0).remaining, 0U);  // a peek, which creates nothing
  EXPECT_EQ(ask_times(west, 10), 0);
  pass(Millis(200));
  EXPECT_EQ(west.limiter->sync_stats().keys_received, 1U);
}

// Regression: with many keys a fleet wrote 8000 rows a second. Each process published again what a
// sibling had published, because it had no space for the sibling's rows.
TEST_F(RegionSyncTest, PublishesOncePerRegionHoweverManyKeysOthersUse) {
  const std::shared_ptr<RegionalOrigin> origin = make_in_process_origin(clock_);
  TestRegion& one = add("east", origin);
  TestRegion& two = add("east", origin);
  LedgerNews flood;
  for (int i = 0; i < 3000; ++i) {
    const LedgerKey key{.workspace = "",
                        .ns = "api",
                        .identifier = "other-" + std::to_string(i),
                        .duration = duration_};
    flood.presences.push_back(
        {.key = key, .region = "west", .until = clock_.now().wall + Millis(600'000)});
  }
  store_->publish(flood, [](const auto&) {});
  pass(Millis(2000));
  EXPECT_GT(two.limiter->sync_stats().no_room, 0U);
  ask_times(one, 30);
  pass(Millis(2000));
  EXPECT_EQ(rows(one), 1U);
  ask_times(two, 1);
  pass(Millis(5000));
  EXPECT_EQ(rows(two), 0U);
}

TEST_F(RegionSyncTest, KeepsDecidingWhileTheLedgerIsUnreachableAndReportsIt) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(1000));
  ask_times(east, 30);
  pass(Millis(1000));
  east.ledger->cut();
  pass(Millis(10'000));
  EXPECT_EQ(ask_times(east, 100), 70);
  EXPECT_EQ(ask(east).basis, Basis::kDegraded);
  EXPECT_EQ(ask(west).basis, Basis::kLocal);
  EXPECT_EQ(foreign(west), 30U);
  EXPECT_GT(east.limiter->sync_stats().import_lag, Millis(9000));
  east.ledger->restore();
  pass(Millis(2000));
  EXPECT_EQ(foreign(west), 100U);
  EXPECT_EQ(ask(east).basis, Basis::kLocal);
}

TEST_F(RegionSyncTest, StartsWithoutTheLedger) {
  TestRegion& east = add("east");
  east.ledger->cut();
  pass(Millis(3000));
  EXPECT_EQ(ask_times(east, 60), 60);
  EXPECT_FALSE(east.limiter->sync_stats().ready);
  east.ledger->restore();
  pass(Millis(3000));
  EXPECT_TRUE(east.limiter->sync_stats().ready);
  EXPECT_EQ(row("east"), 60U);
}

TEST_F(RegionSyncTest, PublishesAgainToALedgerThatLostRows) {
  duration_ = Millis(3'600'000);
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 110);
  pass(Millis(1000));
  store_->clear();
  pass(Millis(30'000));
  EXPECT_TRUE(store_->contents().rows.empty());  // not noticed yet
  pass(Millis(31'000));
  EXPECT_EQ(east.limiter->sync_stats().lost, 1U);
  ASSERT_EQ(store_->contents().rows.size(), 1U);
  EXPECT_EQ(store_->contents().rows[0].count, 100U);
}

TEST_F(RegionSyncTest, PublishesAgainToALedgerThatLostRowsOfAnEarlierFullRead) {
  duration_ = Millis(3'600'000);
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 110);
  pass(Millis(150'000));  // two full reads by now
  EXPECT_GE(east.limiter->sync_stats().full_reads, 3U);
  EXPECT_EQ(east.limiter->sync_stats().lost, 0U);
  EXPECT_EQ(rows(east), 1U);
  store_->clear();
  pass(Millis(62'000));
  EXPECT_EQ(east.limiter->sync_stats().lost, 1U);
  ASSERT_EQ(store_->contents().rows.size(), 1U);
  EXPECT_EQ(store_->contents().rows[0].count, 100U);
  EXPECT_EQ(store_->contents().presences.size(), 1U);
}

TEST_F(RegionSyncTest, ARejectedRowIsFoundAndDoesNotBlockOthers) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  east.ledger->reject_rows_of("user-3");
  for (int i = 0; i < 8; ++i) {
    identifier_ = "user-" + std::to_string(i);
    ask_times(east, 30);
  }
  pass(Millis(1000));
  EXPECT_EQ(rows(east), 7U);
  EXPECT_EQ(east.limiter->sync_stats().dropped, 1U);
  const uint64_t tries = east.ledger->faults();
  pass(Millis(5000));
  EXPECT_EQ(east.ledger->faults(), tries);
}

TEST_F(RegionSyncTest, DoesNotPublishWindowsThatExpiredWhileTheLedgerWasUnreachable) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  duration_ = Millis(1000);
  east.ledger->cut();
  ask_times(east, 60);
  pass(Millis(5000));
  east.ledger->restore();
  pass(Millis(3000));
  EXPECT_EQ(rows(east), 0U);
  EXPECT_EQ(east.limiter->sync_stats().waiting, 0U);
}

TEST_F(RegionSyncTest, DoesAFullReadSoonAfterAFailure) {
  TestRegion& east = add("east");
  pass(Millis(6000));
  ask_times(east, 110);
  pass(Millis(1000));
  east.ledger->cut();
  store_->clear();
  pass(Millis(1000));
  east.ledger->restore();
  pass(Millis(8000));
  EXPECT_EQ(row("east"), 100U);
}

// Answers everything but clean() and heartbeat(), from some time on.
class BusyLedger final : public GlobalLedger {
 public:
  explicit BusyLedger(std::shared_ptr<GlobalLedger> inner) : inner_(std::move(inner)) {}
  void publish(LedgerNews rows, PublishReply reply) override {
    inner_->publish(std::move(rows), std::move(reply));
  }
  void changes_since(LedgerCursor cursor, ChangesReply reply) override {
    if (!swallows_reads) inner_->changes_since(cursor, std::move(reply));
  }
  void read_page(LedgerPosition place, PageReply reply) override {
    inner_->read_page(std::move(place), std::move(reply));
  }
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override {
    if (!swallows_work) return inner_->heartbeat(std::move(self), rules, std::move(reply));
    ++swallowed;
  }
  void clean(size_t most, CleaningReply reply) override {
    if (!swallows_work) return inner_->clean(most, std::move(reply));
    ++swallowed;
  }
  bool swallows_work = false;
  bool swallows_reads = false;
  int swallowed = 0;

 private:
  const std::shared_ptr<GlobalLedger> inner_;
};

TEST_F(RegionSyncTest, DoesAFullReadAfterAnImportTimedOutButNotAfterOtherCallsDid) {
  const auto ledger = std::make_shared<BusyLedger>(store_);
  TestRegion& east = add("east");
  east.limiter = std::make_unique<Limiter>(
      Limiter::create(clock_, {.ledger = ledger, .region = "east"}).value());
  pass(Millis(1000));
  EXPECT_EQ(east.limiter->sync_stats().full_reads, 1U);
  ledger->swallows_work = true;
  pass(Millis(40'000));
  EXPECT_GE(ledger->swallowed, 6);  // several of both
  EXPECT_EQ(east.limiter->sync_stats().full_reads, 1U);
  ledger->swallows_work = false;
  ledger->swallows_reads = true;
  pass(Millis(500));
  ledger->swallows_reads = false;
  pass(Millis(10'000));
  EXPECT_EQ(east.limiter->sync_stats().full_reads, 2U);
}

TEST_F(RegionSyncTest, SendsRowsAgainAfterALostReply) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 30);
  east.ledger->script(
      {doubles::LedgerFault::kDrop, doubles::LedgerFault::kDrop, doubles::LedgerFault::kDrop});
  pass(Millis(8000));
  EXPECT_EQ(row("east"), 30U);
}

TEST_F(RegionSyncTest, PublishesARefusalAfterItsMessageWasLostAndAnotherRefusal) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 90);
  pass(Millis(1000));
  east.ledger->set_odds({.drop = 1000});
  ask_times(east, 20);
  pass(Millis(300));
  ask_times(east, 5);
  pass(Millis(300));
  east.ledger->set_odds({});
  pass(Millis(7000));
  EXPECT_EQ(row("east"), 100U);
}

TEST_F(RegionSyncTest, PublishesARefusalAfterAnEarlierRowInFlight) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  east.ledger->hold_publishes();
  ask_times(east, 90);
  pass(Millis(300));
  ask_times(east, 20);
  pass(Millis(300));
  east.ledger->release_publishes();
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 100U);
}

TEST_F(RegionSyncTest, ErasesTheEntryOfATupleThatExpiredWhileItsMessageWasLost) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  duration_ = Millis(1000);
  ask_times(east, 60);
  east.ledger->set_odds({.drop = 1000});
  pass(Millis(200));
  east.ledger->set_odds({});
  for (int i = 0; i < 4; ++i) {
    pass(Millis(1000));
    east.limiter->run_sweep(clock_.now(), 4096);
  }
  pass(Millis(3000));
  EXPECT_EQ(east.limiter->sync_stats().waiting, 0U);
  EXPECT_EQ(east.limiter->sync_stats().keys, 0U);
}

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
  // The tuple determines which process is first; this tests one of the two orders.
  auto origin = std::shared_ptr<RegionalOrigin>(make_in_process_origin(clock_));
  TestRegion& one = add("east", origin);
  TestRegion& two = add("east", origin);
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
  EXPECT_GE(west.limiter->sync_stats().bound, 1.6 - 0.001);
  pass(Millis(10'000));
  EXPECT_LE(rows(east), 20U + 20U * 16);
  pass(Millis(150'000));
  EXPECT_EQ(east.limiter->sync_stats().waiting, 0U);
  EXPECT_NEAR(west.limiter->sync_stats().bound, 1.35, 0.001);
}

}  // namespace
}  // namespace weir::global
