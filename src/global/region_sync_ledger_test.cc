// Regions whose ledger fails, loses rows, or has more to read than one reply can hold.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "global/region_sync_fixture_test.h"

namespace weir::global {
namespace {

// Regression: a process that did not know how many regions there are had nothing to publish, and
// its shutdown reported that all was written.
TEST_F(RegionSyncTest, CountsWaitAtShutdownIfTheLedgerNeverAnswered) {
  TestRegion& east = add("east");
  east.ledger->cut();
  pass(Millis(1000));
  EXPECT_EQ(east.limiter->run_sync(clock_.now(), Flush::kAll).waiting, 0U);
  ask_times(east, 30);
  EXPECT_GT(east.limiter->run_sync(clock_.now(), Flush::kAll).waiting, 0U);
  east.ledger->restore();
  clock_.advance(Millis(5000));
  for (int i = 0; i < 5; ++i) {
    east.limiter->run_sync(clock_.now(), Flush::kAll);
    clock_.advance(Millis(500));
  }
  EXPECT_EQ(row("east"), 30U);
  EXPECT_EQ(east.limiter->run_sync(clock_.now(), Flush::kAll).waiting, 0U);
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

TEST_F(RegionSyncTest, PublishesTheRowsOfTheLastMinuteAgainToALedgerThatLostThem) {
  duration_ = Millis(3'600'000);
  TestRegion& east = add("east");
  pass(Millis(1000));
  ask_times(east, 110);
  pass(Millis(1000));
  const std::vector<LedgerRow> before = store_->contents();
  store_->clear();
  pass(Millis(3000));
  EXPECT_EQ(east.limiter->sync_stats().lost, 1U);
  ASSERT_EQ(store_->contents().size(), 1U);
  EXPECT_EQ(store_->contents()[0].count, 100U);
  EXPECT_EQ(store_->contents(), before);
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

TEST_F(RegionSyncTest, PublishesAgainWhatTheLedgerLostWhileItWasUnreachable) {
  TestRegion& east = add("east");
  pass(Millis(6000));
  ask_times(east, 110);
  pass(Millis(1000));
  east.ledger->cut();
  store_->clear();
  pass(Millis(1000));
  east.ledger->restore();
  pass(Millis(4000));
  EXPECT_EQ(row("east"), 100U);
}

class BusyLedger final : public GlobalLedger {
 public:
  explicit BusyLedger(std::shared_ptr<GlobalLedger> inner) : inner_(std::move(inner)) {}
  void publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
               PublishReply reply) override {
    inner_->publish(std::move(region), known, std::move(rows), std::move(reply));
  }
  void read_feeds(std::vector<RegionFeed> after, FeedReply reply) override {
    if (!swallows_reads) inner_->read_feeds(std::move(after), std::move(reply));
  }
  void read_page(std::string region, LedgerPosition position, PageReply reply) override {
    inner_->read_page(std::move(region), std::move(position), std::move(reply));
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

TEST_F(RegionSyncTest, DoesNoFullReadAfterCallsTimedOut) {
  const auto ledger = std::make_shared<BusyLedger>(store_);
  TestRegion& east = add("east");
  east.limiter = std::make_unique<Limiter>(
      Limiter::create(clock_, {.ledger = ledger, .region = "east"}).value());
  write_for_north(10, {identifier_});
  pass(Millis(1000));
  const uint64_t full_reads = east.limiter->sync_stats().full_reads;
  EXPECT_EQ(full_reads, 3U);  // of north, and of east before and after its feed began
  ledger->swallows_work = true;
  pass(Millis(40'000));
  EXPECT_GE(ledger->swallowed, 6);  // several of both
  EXPECT_EQ(east.limiter->sync_stats().full_reads, full_reads);
  ledger->swallows_work = false;
  ledger->swallows_reads = true;
  pass(Millis(500));
  write_for_north(30, {identifier_});
  ledger->swallows_reads = false;
  pass(Millis(10'000));
  EXPECT_EQ(east.limiter->sync_stats().full_reads, full_reads);
  EXPECT_EQ(foreign(east), 30U);
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

TEST_F(RegionSyncTest, ImportsALargeFeedInSeveralReplies) {
  TestRegion& west = add("west");
  ask(west);
  write_for_north(1, {"first"});
  pass(Millis(1000));
  const uint64_t full_reads = west.limiter->sync_stats().full_reads;
  for (int batch = 0; batch < 110; ++batch) {
    write_for_north(1, numbered("batch" + std::to_string(batch), 1000));
  }
  write_for_north(40, {identifier_});
  pass(Millis(400));
  EXPECT_EQ(foreign(west), 40U);
  EXPECT_EQ(west.limiter->sync_stats().full_reads, full_reads);
  EXPECT_LT(west.limiter->sync_stats().import_lag, Millis(400));
}

TEST_F(RegionSyncTest, ReadsARegionWholeWhenABatchIsMissing) {
  TestRegion& west = add("west");
  ask(west);
  write_for_north(1, {"first"});
  pass(Millis(1000));
  const uint64_t full_reads = west.limiter->sync_stats().full_reads;
  write_for_north(40, {identifier_});
  store_->drop_batches("north", north_, north_);
  write_for_north(1, {"last"});
  pass(Millis(400));
  EXPECT_EQ(foreign(west), 40U);
  EXPECT_EQ(west.limiter->sync_stats().full_reads, full_reads + 1);
  EXPECT_TRUE(west.limiter->sync_stats().ready);
}

TEST_F(RegionSyncTest, ReadsARegionWholeWhenABatchIsMissingAndAReplyCannotHoldTheRest) {
  TestRegion& west = add("west");
  ask(west);
  write_for_north(1, {"first"});
  pass(Millis(1000));
  write_for_north(40, {identifier_});
  store_->drop_batches("north", north_, north_);
  for (int batch = 0; batch < 60; ++batch) {
    write_for_north(1, numbered("batch" + std::to_string(batch), 1000));
  }
  pass(Millis(2000));
  EXPECT_EQ(foreign(west), 40U);
  EXPECT_TRUE(west.limiter->sync_stats().ready);
}

}  // namespace
}  // namespace weir::global
