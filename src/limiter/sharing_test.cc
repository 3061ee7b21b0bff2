// What regions tell each other, and when.

#include "limiter/sharing.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ledgers/rows.h"
#include "limiter/sharing_fixture_test.h"

namespace weir::limiter {
namespace {

TEST_F(RegionSyncTest, WhatOneRegionAcceptsCountsInTheOther) {
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

TEST_F(RegionSyncTest, ALoneRegionTellsOnceThatItIsHere) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  for (int i = 0; i < 90; ++i) {
    ask(east);
    pass(Millis(100));
  }
  EXPECT_EQ(rows(east), 1U);
  EXPECT_EQ(row("east"), 25U);
}

TEST_F(RegionSyncTest, FullMeansAcked) {
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

// A lone region that is known fills up and falls silent; then another begins.
TEST_F(RegionSyncTest, ARegionThatFellSilentIsStillReceived) {
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
  // 1 + slack + what west counted before it told, and what it accepted while that travelled.
  EXPECT_LE(99 + admitted, 100 + 10 + 24 + 30);
  EXPECT_EQ(row("east"), 99U);
  EXPECT_EQ(foreign(west), 99U);
}

TEST_F(RegionSyncTest, AtTheEndOfItsLeaseItTellsWhatItHasByThen) {
  TestRegion& east = add("east", nullptr, {.lease = Millis(20'000)});
  add("west");
  pass(Millis(1000));
  ask_times(east, 30);
  pass(Millis(1000));
  ask_times(east, 30);
  pass(Millis(5000));
  EXPECT_EQ(row("east"), 30U);
  pass(Millis(15'000));
  EXPECT_EQ(row("east"), 60U);
}

// A lease of five seconds was over when it began: 338 rows a minute for one key.
TEST_F(RegionSyncTest, AKeyInUseCostsThirtyRowsAMinuteAtTheShortestLeaseAndBelow) {
  const auto rows_per_minute = [this](const SyncRules& rules) {
    regions_.clear();
    store_ = std::make_shared<MemoryLedger>(clock_);
    store_->decree(rules);  // a limiter refuses such options, but a ledger may have them
    TestRegion& east = add("east");
    add("west");
    limit_ = 100'000;
    pass(Millis(1000));
    EXPECT_TRUE(ask(east, 30'000).admitted());
    pass(Millis(5000));
    const uint64_t before = rows(east);
    for (int i = 0; i < 600; ++i) {
      ask_times(east, 1);
      pass(Millis(100));
    }
    return rows(east) - before;
  };
  EXPECT_LE(rows_per_minute({.lease = kMinLease}), 31U);
  EXPECT_GE(rows_per_minute({.lease = kMinLease}), 20U);
  EXPECT_LE(rows_per_minute({.lease = Millis(5000)}), 31U);
  EXPECT_LE(rows_per_minute({.lease = Millis(1)}), 31U);
  EXPECT_LE(rows_per_minute({.lease = Millis(20'000), .import_every = Millis(10'000)}), 31U);
  EXPECT_LE(rows_per_minute({}), 1U);
}

TEST_F(RegionSyncTest, WhatWasNotAckedOfAWindowIsAckedWhenItIsOver) {
  algorithm_ = Algorithm::kSlidingWindow;
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(1000));
  ask_times(east, 40);
  ask_times(west, 40);
  pass(Millis(2000));
  // Less than what would be told by what remains, more than by the slack alone.
  ask_times(east, 8);
  pass(Millis(3000));
  EXPECT_EQ(row("east"), 40U);
  pass(Millis(60'000));
  EXPECT_EQ(row("east", 1), 48U);
}

TEST_F(RegionSyncTest, AColdOversizedRequestTellsNothing) {
  TestRegion& east = add("east");
  add("west");
  pass(Millis(1000));
  EXPECT_FALSE(ask(east, 101).admitted());
  pass(Millis(3000));
  EXPECT_TRUE(store_->everything().rows.empty());
  ask_times(east, 1);
  EXPECT_FALSE(ask(east, 100).admitted());
  pass(Millis(3000));
  EXPECT_TRUE(store_->everything().rows.empty());
}

TEST_F(RegionSyncTest, ADenialCausedByTheLastWindowPinsNobodyElsewhere) {
  algorithm_ = Algorithm::kSlidingWindow;
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(1000));
  ask_times(east, 100);
  pass(Millis(60'000));
  EXPECT_LT(ask_times(east, 10), 10);
  pass(Millis(2000));
  // East told what it accepted, which is next to nothing.
  EXPECT_LT(row("east"), 10U);
  EXPECT_LT(foreign(west), 10U);
}

TEST_F(RegionSyncTest, QuietTuplesAreNotWrittenAgain) {
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

TEST_F(RegionSyncTest, ARestartedRegionKnowsWhatItAckedBefore) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 110);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 100U);
  east.limiter = nullptr;
  TestRegion& again = add("east");
  pass(Millis(1000));
  EXPECT_EQ(ask(again, 0).remaining, 0U);  // a peek, before there is a tuple
  const Verdict verdict = ask(again);
  EXPECT_FALSE(verdict.admitted());
  EXPECT_EQ(verdict.evidence.siblings, 100U);
}

TEST_F(RegionSyncTest, ATupleFirstSeenHereIsDecidedOnWhatIsKnown) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(1000));
  ask_times(east, 110);
  pass(Millis(1000));
  EXPECT_EQ(west.limiter->sync_stats().keys_received, 1U);
  EXPECT_EQ(ask(west, 0).remaining, 0U);  // a peek, of which no trace is left
  EXPECT_EQ(ask_times(west, 10), 0);
  pass(Millis(200));
  EXPECT_EQ(west.limiter->sync_stats().keys_received, 1U);
}

// A fleet of many keys wrote eight thousand rows a second: each process of a region told again what
// a sibling had told, since it had had no room to hear of it.
TEST_F(RegionSyncTest, TellsOnceForARegionHoweverManyKeysOthersUse) {
  const std::shared_ptr<RegionalOrigin> origin = make_in_process_origin(clock_);
  TestRegion& one = add("east", origin);
  TestRegion& two = add("east", origin);
  LedgerNews flood;
  for (int i = 0; i < 3000; ++i) {
    const LedgerKey key{.workspace = "",
                        .ns = "api",
                        .identifier = "stranger-" + std::to_string(i),
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

TEST_F(RegionSyncTest, GoesOnWhileTheLedgerIsAwayAndSaysSo) {
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
  east.ledger->mend();
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
  east.ledger->mend();
  pass(Millis(3000));
  EXPECT_TRUE(east.limiter->sync_stats().ready);
  EXPECT_EQ(row("east"), 60U);
}

TEST_F(RegionSyncTest, ALedgerThatLostRowsIsAckedAgain) {
  duration_ = Millis(3'600'000);
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 110);
  pass(Millis(1000));
  store_->forget_all();
  pass(Millis(30'000));
  EXPECT_TRUE(store_->everything().rows.empty());  // nobody knows yet
  pass(Millis(31'000));
  EXPECT_EQ(east.limiter->sync_stats().lost, 1U);
  ASSERT_EQ(store_->everything().rows.size(), 1U);
  EXPECT_EQ(store_->everything().rows[0].count, 100U);
}

TEST_F(RegionSyncTest, ALedgerThatLostRowsItOnceShowedIsAckedAgain) {
  duration_ = Millis(3'600'000);
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 110);
  pass(Millis(150'000));  // read twice by now
  EXPECT_GE(east.limiter->sync_stats().full_reads, 3U);
  EXPECT_EQ(east.limiter->sync_stats().lost, 0U);
  EXPECT_EQ(rows(east), 1U);
  store_->forget_all();
  pass(Millis(62'000));
  EXPECT_EQ(east.limiter->sync_stats().lost, 1U);
  ASSERT_EQ(store_->everything().rows.size(), 1U);
  EXPECT_EQ(store_->everything().rows[0].count, 100U);
  EXPECT_EQ(store_->everything().presences.size(), 1U);
}

// Requests that meet a tuple for the first time need the mutex: it was held for as long as all
// entries took. On this thread, taking it again would never end.
TEST(Importer, ReadsEverythingWithoutTheMutexWhereNothingWasLost) {
  const HandClock clock;
  const auto store = std::make_shared<Store>(clock, Options{.region = "east", .capacity = 64}, 1);
  const Regions regions;
  Publisher publisher(store, std::make_shared<CompletionQueue>(), regions);
  Importer importer(store, regions, publisher.trigger());
  const LedgerKey key{
      .workspace = "", .ns = "api", .identifier = "alice", .duration = Millis(60'000)};
  const LedgerNews news{
      .rows = {{.key = key,
                .sequence = clock.now().wall.time_since_epoch() / Millis(60'000),
                .region = "east",
                .count = 7,
                .limit_seen = 10}},
      .presences = {{.key = key, .region = "east", .until = clock.now().wall + Millis(600'000)}}};
  importer.take_in(clock.now(), news);
  const auto with_mutex_taken = [&](const auto& work) {
    const std::lock_guard lock(store->remote.mutex());
    work();
  };
  HandClock later;
  later.advance(Millis(1000));
  with_mutex_taken([&] { importer.begin_full(later.now()); });
  importer.take_in(later.now(), news);
  with_mutex_taken([&] { importer.end_full(later.now()); });
  EXPECT_EQ(importer.stats().lost, 0U);
  // The same, but the read does not show it.
  later.advance(Millis(1000));
  importer.begin_full(later.now());
  importer.end_full(later.now());
  EXPECT_EQ(importer.stats().lost, 1U);
}

TEST_F(RegionSyncTest, ARowThatCannotBeWrittenIsFoundAndHoldsUpNoOther) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  east.ledger->blame("user-3");
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

TEST_F(RegionSyncTest, WhatIsOverByTheTimeTheLedgerIsBackIsNotAcked) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  duration_ = Millis(1000);
  east.ledger->cut();
  ask_times(east, 60);
  pass(Millis(5000));
  east.ledger->mend();
  pass(Millis(3000));
  EXPECT_EQ(rows(east), 0U);
  EXPECT_EQ(east.limiter->sync_stats().waiting, 0U);
}

TEST_F(RegionSyncTest, AfterAFailureEverythingIsReadSoonLestSomethingWasLost) {
  TestRegion& east = add("east");
  pass(Millis(6000));
  ask_times(east, 110);
  pass(Millis(1000));
  east.ledger->cut();
  store_->forget_all();
  pass(Millis(1000));
  east.ledger->mend();
  pass(Millis(8000));
  EXPECT_EQ(row("east"), 100U);
}

// Answers all but what is asked to clean or to attend, from some time on.
class BusyLedger final : public GlobalLedger {
 public:
  explicit BusyLedger(std::shared_ptr<GlobalLedger> inner) : inner_(std::move(inner)) {}
  void publish(LedgerNews news, PublishReply reply) override {
    inner_->publish(std::move(news), std::move(reply));
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

TEST_F(RegionSyncTest, ReadsEverythingAgainAfterAReadTimedOutButNotAfterOtherWorkDid) {
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

TEST_F(RegionSyncTest, HearsInPartsWhatIsTooMuchForOneAnswer) {
  TestRegion& west = add("west");
  ask(west);
  pass(Millis(1000));
  const uint64_t full_reads = west.limiter->sync_stats().full_reads;
  for (int moment = 0; moment < 110; ++moment) {
    write_for_north(1, numbered("moment" + std::to_string(moment), 1000));
    clock_.advance(Millis(1));
  }
  write_for_north(40, {identifier_});
  pass(Millis(400));
  EXPECT_EQ(foreign(west), 40U);
  EXPECT_EQ(west.limiter->sync_stats().full_reads, full_reads);
  EXPECT_LT(west.limiter->sync_stats().import_lag, Millis(400));
}

TEST_F(RegionSyncTest, ReadsEverythingWhenOneMomentIsTooMuchForAnAnswer) {
  TestRegion& west = add("west");
  ask(west);
  pass(Millis(1000));
  const uint64_t full_reads = west.limiter->sync_stats().full_reads;
  write_for_north(1, numbered("other", ledgers::kMostChanges + 1));
  write_for_north(40, {identifier_});
  pass(Millis(400));
  EXPECT_EQ(foreign(west), 0U);
  pass(Millis(8000));
  EXPECT_EQ(foreign(west), 40U);
  EXPECT_GT(west.limiter->sync_stats().full_reads, full_reads);
}

TEST_F(RegionSyncTest, ALostAnswerIsSentAgain) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 30);
  east.ledger->script({doubles::LedgerFault::kSwallow, doubles::LedgerFault::kSwallow,
                       doubles::LedgerFault::kSwallow});
  pass(Millis(8000));
  EXPECT_EQ(row("east"), 30U);
}

TEST_F(RegionSyncTest, ARefusalIsAckedAlthoughItsMessageWasLostAndMoreWasRefusedMeanwhile) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 90);
  pass(Millis(1000));
  east.ledger->set_odds({.swallow = 1000});
  ask_times(east, 20);
  pass(Millis(300));
  ask_times(east, 5);
  pass(Millis(300));
  east.ledger->set_odds({});
  pass(Millis(7000));
  EXPECT_EQ(row("east"), 100U);
}

TEST_F(RegionSyncTest, ARefusalIsAckedAlthoughARowFromBeforeItWasOnItsWay) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  east.ledger->hold();
  ask_times(east, 90);
  pass(Millis(300));
  ask_times(east, 20);
  pass(Millis(300));
  east.ledger->let_go();
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 100U);
}

TEST_F(RegionSyncTest, ATupleForgottenWhileItsMessageWasLostIsLetGo) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  duration_ = Millis(1000);
  ask_times(east, 60);
  east.ledger->set_odds({.swallow = 1000});
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

TEST_F(RegionSyncTest, AtItsEndAProcessTellsAllThatItHas) {
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

TEST_F(RegionSyncTest, MoreRegionsMayEachHideLess) {
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 20);
  pass(Millis(1000));
  EXPECT_EQ(row("east"), 0U);
  for (int i = 0; i < 5; ++i) add("other" + std::to_string(i));
  pass(Millis(8000));
  EXPECT_EQ(row("east"), 20U);
}

TEST_F(RegionSyncTest, ALowerLimitIsNewsToTheRule) {
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
  // Which is first follows from the tuple: of both orders one is tried here.
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

TEST_F(RegionSyncTest, TheFloorWritesWhatGrewAtFixedTimes) {
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

TEST_F(RegionSyncTest, AFloodOfNewKeysStaysWithinTheBudget) {
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
  // What waits is hidden, and the others know.
  EXPECT_GE(west.limiter->sync_stats().bound, 1.6 - 0.001);
  pass(Millis(10'000));
  EXPECT_LE(rows(east), 20U + 20U * 16);
  pass(Millis(150'000));
  EXPECT_EQ(east.limiter->sync_stats().waiting, 0U);
  EXPECT_NEAR(west.limiter->sync_stats().bound, 1.35, 0.001);
}

}  // namespace
}  // namespace weir::limiter
