#include "global/bridge_importer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "global/bridge_fixture_test.h"
#include "ledgers/rows.h"

namespace weir::global {
namespace {

class BridgeImporterTest : public BridgeFixture {
 protected:
  [[nodiscard]] static bool is_bridge(const Process& process, const doubles::ManualClock& clock) {
    return process.importer->is_bridge(clock.now().mono);
  }
  [[nodiscard]] FeedPosition position(const std::string& region) const {
    auto state = saved();
    return state ? state->cursors[region] : FeedPosition{};
  }
};

TEST_F(BridgeImporterTest, ReadsEachRegionWholeAndThenFollowsItsFeed) {
  publish_for("north", "a", 10);
  publish_for("south", "b", 20);
  const auto process = make_process("one");
  pass(Millis(10), {process.get()});
  EXPECT_FALSE(process->regions.complete);
  pass(Millis(500), {process.get()});
  EXPECT_TRUE(process->regions.complete);
  EXPECT_EQ(at_origin("north", "a"), 10U);
  EXPECT_EQ(at_origin("south", "b"), 20U);
  const uint64_t full_reads = process->importer->stats().full_reads;
  EXPECT_EQ(full_reads, 2U);
  publish_for("north", "c", 30);
  pass(Millis(200), {process.get()});
  EXPECT_EQ(at_origin("north", "c"), 30U);
  EXPECT_EQ(process->importer->stats().full_reads, full_reads);
  EXPECT_EQ(position("north"), feeds_["north"]);
}

// By its clock the rows have expired, or their windows have not begun. It must not save a position
// behind rows that it left out.
TEST_F(BridgeImporterTest, ABridgeWithAWrongClockHidesNoRows) {
  const auto process = make_process("one");
  pass(Millis(500), {process.get()});
  for (const Millis ahead : {Millis(5 * 3'600'000), Millis(-5 * 3'600'000)}) {
    process->clock_ahead = ahead;
    const std::string suffix = std::to_string(ahead.count());
    publish_for("north", "at once" + suffix, 10);
    pass(Millis(500), {process.get()});
    EXPECT_EQ(at_origin("north", "at once" + suffix), 10U);
    publish_for("north", "later" + suffix, 20);
    pass(Millis(500), {process.get()});
    EXPECT_EQ(at_origin("north", "later" + suffix), 20U);
    EXPECT_EQ(position("north"), feeds_["north"]);
  }
  EXPECT_EQ(process->importer->stats().invalid, 0U);
}

TEST_F(BridgeImporterTest, ANewRegionMakesTheOthersIncompleteUntilItIsRead) {
  publish_for("north", "a", 10);
  const auto process = make_process("one");
  pass(Millis(500), {process.get()});
  ASSERT_TRUE(process->regions.complete);
  publish_for("south", "b", 20);
  bool was_incomplete = false;
  for (int i = 0; i < 50; ++i) {
    pass(Millis(10), {process.get()});
    EXPECT_TRUE(!process->regions.complete || was_incomplete || at_origin("south", "b") == 0);
    was_incomplete = was_incomplete || !process->regions.complete;
  }
  EXPECT_TRUE(was_incomplete);
  EXPECT_TRUE(process->regions.complete);
  EXPECT_EQ(at_origin("south", "b"), 20U);
}

TEST_F(BridgeImporterTest, ReadsARegionWholeAfterAGapInItsFeed) {
  publish_for("north", "a", 10);
  const auto process = make_process("one");
  pass(Millis(500), {process.get()});
  const uint64_t full_reads = process->importer->stats().full_reads;
  publish_for("north", "b", 20);
  ledger_->drop_batches("north", feeds_["north"], feeds_["north"]);
  publish_for("north", "c", 30);
  pass(Millis(500), {process.get()});
  EXPECT_EQ(at_origin("north", "b"), 20U);
  EXPECT_EQ(at_origin("north", "c"), 30U);
  EXPECT_EQ(process->importer->stats().full_reads, full_reads + 1);
  EXPECT_EQ(position("north"), feeds_["north"]);
  EXPECT_TRUE(process->regions.complete);
}

TEST_F(BridgeImporterTest, ReadsARegionWholeInAnotherEpoch) {
  publish_for("north", "a", 10);
  const auto process = make_process("one");
  pass(Millis(500), {process.get()});
  const uint64_t full_reads = process->importer->stats().full_reads;
  feeds_["north"] = {};  // the other region lost its position
  publish_for("north", "b", 20);
  pass(Millis(500), {process.get()});
  EXPECT_EQ(at_origin("north", "b"), 20U);
  EXPECT_EQ(process->importer->stats().full_reads, full_reads + 1);
  EXPECT_EQ(position("north"), feeds_["north"]);
}

// A replica that lagged behind was promoted, and the other region does not know more than that.

TEST_F(BridgeImporterTest, ReadsARegionWholeWhoseFeedEndsBeforeOurPosition) {
  publish_for("north", "a", 10);
  const auto process = make_process("one");
  pass(Millis(500), {process.get()});
  const auto behind = ledger_->snapshot();
  const FeedPosition known = feeds_["north"];
  publish_for("north", "lost", 20);
  pass(Millis(200), {process.get()});
  ASSERT_EQ(position("north"), feeds_["north"]);
  ledger_->restore(*behind);
  batches_.pop_back();
  pass(Millis(500), {process.get()});
  feeds_["north"] = known;
  publish_for("north", "new", 30);  // with the number of the batch that was lost
  pass(Millis(500), {process.get()});
  EXPECT_EQ(at_origin("north", "new"), 30U);
  EXPECT_EQ(position("north"), feeds_["north"]);
  EXPECT_TRUE(process->regions.complete);
}

TEST_F(BridgeImporterTest, MissesNoRowOfARegionThatALaggingReplicaReturns) {
  publish_for("north", "a", 10);
  const auto replica = make_replica();
  publish_for("north", "b", 20);
  const auto process = make_process("one");
  process->ledger->replica = replica;
  pass(Millis(500), {process.get()});
  EXPECT_TRUE(process->regions.complete);
  EXPECT_EQ(at_origin("north", "a"), 10U);
  EXPECT_EQ(at_origin("north", "b"), 20U);
  EXPECT_EQ(position("north"), feeds_["north"]);
  EXPECT_EQ(process->importer->stats().full_reads, 1U);
}

TEST_F(BridgeImporterTest, FollowsAFeedFromTheEarliestMomentOfItsPages) {
  std::vector<LedgerRow> rows;
  for (size_t i = 0; i <= ledgers::kRowsPerPage; ++i) {
    rows.push_back({.key = {.workspace = "",
                            .ns = "api",
                            .identifier = std::to_string(i),
                            .duration = kDuration},
                    .sequence = current(),
                    .region = "north",
                    .count = 7,
                    .limit_seen = 100});
  }
  ledger_->publish("north", {}, rows,
                   [&](const Result<FeedPosition>& at) { feeds_["north"] = *at; });
  const auto replica = make_replica();
  publish_for("north", "0", 50);  // a row of the first page
  const auto process = make_process("one");
  process->ledger->replica = replica;
  const auto read = [&] { return process->importer->stats().read; };
  for (int i = 0; i < 100 && read() == 0; ++i) pass(Millis(10), {process.get()});
  ASSERT_EQ(read(), ledgers::kRowsPerPage);
  process->ledger->replica = nullptr;
  pass(Millis(500), {process.get()});
  EXPECT_TRUE(process->regions.complete);
  EXPECT_EQ(at_origin("north", "0"), 50U);
  EXPECT_EQ(at_origin("north", std::to_string(ledgers::kRowsPerPage)), 7U);
  EXPECT_EQ(position("north"), feeds_["north"]);
}

TEST_F(BridgeImporterTest, FollowsNoFeedFromAPageOfAnEarlierEpoch) {
  publish_for("north", "a", 10);
  const auto replica = make_replica();
  feeds_["north"] = {};  // the other region lost its position
  publish_for("north", "b", 20);
  const auto process = make_process("one");
  process->ledger->replica = replica;
  pass(Millis(500), {process.get()});
  EXPECT_FALSE(process->regions.complete);
  process->ledger->replica = nullptr;
  pass(Millis(500), {process.get()});
  EXPECT_TRUE(process->regions.complete);
  EXPECT_EQ(at_origin("north", "b"), 20U);
  // A check does not take a region back whose feed is followed.
  process->ledger->replica = replica;
  process->importer->read_all_again();
  for (int i = 0; i < 50; ++i) {
    pass(Millis(10), {process.get()});
    EXPECT_TRUE(process->regions.complete) << i;
  }
  EXPECT_EQ(position("north"), feeds_["north"]);
}

TEST_F(BridgeImporterTest, DiscardsAllPositionsWhenTheStoreEvictedKeys) {
  publish_for("north", "a", 10);
  const auto process = make_process("one");
  pass(Millis(500), {process.get()});
  ASSERT_TRUE(process->regions.complete);
  const uint64_t id = saved()->id;
  origin_->evict(tuple_of("a"));
  ASSERT_EQ(at_origin("north", "a"), 0U);
  bool was_incomplete = false;
  for (int i = 0; i < 50; ++i) {
    pass(Millis(10), {process.get()});
    was_incomplete = was_incomplete || !process->regions.complete;
    // A region that knows everything knows the evicted row, too.
    EXPECT_TRUE(!was_incomplete || !process->regions.complete || at_origin("north", "a") == 10);
  }
  EXPECT_TRUE(was_incomplete);
  EXPECT_TRUE(process->regions.complete);
  EXPECT_NE(saved()->id, id);
  EXPECT_EQ(at_origin("north", "a"), 10U);
}

TEST_F(BridgeImporterTest, DoesNotReadAllRowsAllTheTimeWhileTheStoreKeepsEvicting) {
  publish_for("north", "a", 10);
  publish_for("north", "b", 10);
  const auto process = make_process("one");
  pass(Millis(500), {process.get()});
  const uint64_t before = process->importer->stats().full_reads;
  for (int i = 0; i < 30; ++i) {
    origin_->evict(tuple_of(i % 2 == 0 ? "a" : "b"));
    publish_for("north", i % 2 == 0 ? "a" : "b", static_cast<Count>(20 + i));
    pass(Millis(1000), {process.get()});
    // The first time everything is read again at once.
    EXPECT_EQ(process->regions.complete, i == 0) << i;
  }
  EXPECT_LE(process->importer->stats().full_reads, before + 1);
  // The evictions end: after a while everything is read again.
  pass(Millis(65'000), {process.get()});
  EXPECT_TRUE(process->regions.complete);
}

TEST_F(BridgeImporterTest, ReadsAllRegionsAfterTheStoreLostEverything) {
  publish_for("north", "a", 10);
  const auto process = make_process("one");
  pass(Millis(500), {process.get()});
  origin_->clear();
  pass(Millis(500), {process.get()});
  EXPECT_EQ(at_origin("north", "a"), 10U);
  EXPECT_TRUE(process->regions.complete);
}

// Regression: a renewal took the lease again. Its reply was lost, and the positions were saved.
TEST_F(BridgeImporterTest, SavesNoPositionsIfTheStoreLostEverythingWithinTheRound) {
  publish_for("north", "a", 10);
  const auto process = make_process("one");
  Calls& calls = process->calls;
  pass(Millis(500), {process.get()});
  publish_for("north", "a", 20);
  // The origin has the row, but the reply does not come yet.
  calls.fault = CallFault::kLate;
  for (int i = 0; i < 20 && !calls.late; ++i) {
    calls.faulty = calls.made + 2;
    pass(Millis(10), {process.get()});
  }
  ASSERT_EQ(at_origin("north", "a"), 20U);
  origin_->clear();
  calls.fault = CallFault::kNoReply;
  for (int i = 0; i < 40; ++i) {
    calls.faulty = calls.made;
    pass(Millis(10), {process.get()});
  }
  calls.faulty = ~uint64_t{0};
  calls.wake();
  pass(Millis(500), {process.get()});
  EXPECT_EQ(at_origin("north", "a"), 20U);
  EXPECT_TRUE(process->regions.complete);
}

// After a failover of a part of the store, the saved state may be newer than the counts.

TEST_F(BridgeImporterTest, ReadsAllRegionsOnceAfterPositionsWereDiscarded) {
  publish_for("north", "a", 10);
  const auto one = make_process("one");
  const auto two = make_process("two");
  pass(Millis(500), {one.get(), two.get()});
  ASSERT_TRUE(is_bridge(*one, clock_));
  const uint64_t id = saved()->id;
  one->importer->discard_positions();
  two->importer->discard_positions();  // every process notices the failover
  EXPECT_FALSE(one->regions.complete);
  pass(Millis(500), {one.get(), two.get()});
  const uint64_t renewed = saved()->id;
  EXPECT_NE(renewed, id);
  EXPECT_TRUE(one->regions.complete);
  // The next bridge takes what the first one has read since.
  one->importer->release();
  pass(Millis(600), {two.get()});
  ASSERT_TRUE(is_bridge(*two, clock_));
  EXPECT_EQ(saved()->id, renewed);
}

// A discarded state came back with an old snapshot. The process took what it had read for it since
// for read, and missed the counts of another region until the hourly check.
TEST_F(BridgeImporterTest, DiscardsAStateThatComesBackWithAnOldSnapshot) {
  const auto one = make_process("one");
  pass(Millis(500), {one.get()});
  const auto backup = origin_->snapshot();
  const uint64_t discarded = saved()->id;
  one->importer->discard_positions();
  publish_for("north", "a", 10);
  pass(Millis(500), {one.get()});
  ASSERT_NE(saved()->id, discarded);
  origin_->restore(backup);
  ASSERT_EQ(saved()->id, discarded);
  one->importer->discard_positions();
  pass(Millis(500), {one.get()});
  EXPECT_NE(saved()->id, discarded);
  EXPECT_EQ(at_origin("north", "a"), 10U);
}

TEST_F(BridgeImporterTest, DiscardsTheStateThatItReadsNextIfItHasReadNone) {
  publish_for("north", "a", 10);
  const auto one = make_process("one");
  pass(Millis(500), {one.get()});
  const uint64_t id = saved()->id;
  const auto two = make_process("two");
  two->importer->discard_positions();
  one->importer->release();
  pass(Millis(500), {two.get()});
  EXPECT_NE(saved()->id, id);
  EXPECT_TRUE(two->regions.complete);
}

// Regression: a round that took longer than the lease was never saved.

// It does not know what the next bridge has found out.

// Regression: a batch that another process published between two of ours was skipped.

TEST_F(BridgeImporterTest, DoesNotSkipABatchOfItsRegionThatAnotherProcessPublished) {
  const auto one = make_process("one");
  replay("first", 10, Due::kNever);
  publish_for("here", "first", 10);
  pass(Millis(500), {one.get()});
  const FeedPosition before = position("here");
  ASSERT_EQ(before, feeds_["here"]);
  publish_for("here", "theirs", 20);
  publish_for("here", "ours", 30);
  one->importer->note_own_batch(before, feeds_["here"]);
  pass(Millis(300), {one.get()});
  EXPECT_EQ(at_origin("here", "theirs"), 20U);
  EXPECT_GE(position("here"), feeds_["here"]);
}

TEST_F(BridgeImporterTest, SkipsTheBatchesThatItPublishedItself) {
  const auto one = make_process("one");
  publish_for("here", "first", 10);
  pass(Millis(500), {one.get()});
  const uint64_t read = one->importer->stats().read;
  replay("mine", 60, Due::kRule);
  pass(Millis(1000), {one.get()});
  EXPECT_EQ(in_ledger("mine"), 60U);
  EXPECT_LE(one->importer->stats().read, read + 1);
  EXPECT_EQ(one->importer->stats().full_reads, 1U);
}

TEST_F(BridgeImporterTest, CountsTuplesForWhichTheStoreHasNoSpace) {
  origin_ = std::make_shared<origins::InProcessOrigin>(clock_,
                                                       origins::InProcessOptions{.max_tuples = 1});
  publish_for("north", "a", 10);
  publish_for("north", "b", 20);
  const auto process = make_process("one");
  pass(Millis(500), {process.get()});
  EXPECT_EQ(process->importer->stats().no_room, 1U);
  EXPECT_EQ(process->importer->stats().no_room_until, WallTime((current() + 2) * kDuration));
}

TEST_F(BridgeImporterTest, AppliesManyTuplesInSeveralMessagesBeforeItSavesItsPosition) {
  const auto process = make_process("one");
  publish_for("north", "first", 1);
  pass(Millis(500), {process.get()});
  std::vector<LedgerRow> rows;
  for (int i = 0; i < 1100; ++i) {
    rows.push_back({.key = {.workspace = "",
                            .ns = "api",
                            .identifier = std::to_string(i),
                            .duration = kDuration},
                    .sequence = current(),
                    .region = "north",
                    .count = 7,
                    .limit_seen = 100});
  }
  ledger_->publish("north", feeds_["north"], rows,
                   [&](const Result<FeedPosition>& at) { feeds_["north"] = *at; });
  batches_.push_back({.region = "north", .at = feeds_["north"], .rows = rows});
  pass(Millis(300), {process.get()});
  EXPECT_EQ(position("north"), feeds_["north"]);
  for (const int i : {0, 999, 1000, 1099}) EXPECT_EQ(at_origin("north", std::to_string(i)), 7U);
}

TEST_F(BridgeImporterTest, IgnoresRowsOfThePastOfAWrongFutureAndWithImpossibleCounts) {
  const auto process = make_process("one");
  pass(Millis(500), {process.get()});
  const auto publish = [&](const std::string& name, int64_t sequence, Count count) {
    ledger_->publish(
        "north", feeds_["north"],
        {{.key = {.workspace = "", .ns = "api", .identifier = name, .duration = kDuration},
          .sequence = sequence,
          .region = "north",
          .count = count,
          .limit_seen = 100}},
        [&](const Result<FeedPosition>& at) {
          if (at) feeds_["north"] = *at;
        });
  };
  publish("past", current() - 2, 1);
  publish("future", current() + 2, 1);
  publish("next", current() + 1, 1);
  pass(Millis(1000), {process.get()});
  EXPECT_EQ(at_origin("north", "past", current() - 2), 0U);
  EXPECT_EQ(at_origin("north", "future", current() + 2), 0U);
  EXPECT_EQ(at_origin("north", "next", current() + 1), 1U);
  EXPECT_GE(process->importer->stats().invalid, 1U);
}

// The clock of the other region was ahead for a moment. Since then it publishes nothing on this
// tuple, because it has a lease.
TEST_F(BridgeImporterTest, KeepsTheLeaseOfARowWhoseWindowHasNotBegun) {
  const auto process = make_process("one");
  pass(Millis(500), {process.get()});
  const int64_t sequence = current() + 360;
  const WallTime until((sequence + 11) * kDuration);
  publish_for("north", "a", 10, until, sequence);
  batches_.clear();
  pass(Millis(500), {process.get()});
  std::vector<RegionCount> known = origin_->snapshot().regions(tuple_of("a"));
  EXPECT_EQ(known, (std::vector<RegionCount>{{.region = "north", .leased_until = until}}));
  EXPECT_EQ(process->importer->stats().invalid, 1U);
  // Also in a full read.
  origin_->evict(tuple_of("a"));
  pass(Millis(500), {process.get()});
  known = origin_->snapshot().regions(tuple_of("a"));
  EXPECT_EQ(known, (std::vector<RegionCount>{{.region = "north", .leased_until = until}}));
  // Our own region is present by what it publishes.
  publish_for("here", "b", 10, until, sequence);
  batches_.clear();
  pass(Millis(500), {process.get()});
  EXPECT_TRUE(origin_->snapshot().regions(tuple_of("b")).empty());
}

TEST_F(BridgeImporterTest, ReadsAllRegionsAgainAfterAnHourAndOnRequest) {
  publish_for("north", "a", 10);
  const auto process = make_process("one");
  pass(Millis(1000), {process.get()});
  const uint64_t first = process->importer->stats().full_reads;
  EXPECT_EQ(first, 1U);
  pass(Millis(10'000), {process.get()});
  EXPECT_EQ(process->importer->stats().full_reads, first);
  clock_.advance(Millis(3'600'000));
  pass(Millis(1000), {process.get()});
  EXPECT_EQ(process->importer->stats().full_reads, first + 1);
  process->importer->read_all_again();
  pass(Millis(1000), {process.get()});
  EXPECT_EQ(process->importer->stats().full_reads, first + 2);
  EXPECT_TRUE(process->regions.complete);
}

// An evicted tuple, or one whose process died.

TEST_F(BridgeImporterTest, MakesCountsDueThatNoProcessHoldsWhenAnotherRegionBegins) {
  const auto process = make_process("one");
  publish_for("north", "other", 1);
  pass(Millis(500), {process.get()});
  replay("mine", 20, Due::kNever);
  pass(Millis(500), {process.get()});
  ASSERT_EQ(in_ledger("mine"), 0U);
  publish_for("north", "mine", 80);
  pass(Millis(500), {process.get()});
  EXPECT_EQ(in_ledger("mine"), 20U);
}

TEST_F(BridgeImporterTest, EvaluatesCountsThatNoProcessHoldsAtTheEndOfTheirWindow) {
  const auto process = make_process("one");
  publish_for("north", "other", 1);
  pass(Millis(500), {process.get()});
  replay("mine", 8, Due::kNever);
  publish_for("north", "mine", 10);
  pass(Millis(500), {process.get()});
  EXPECT_EQ(in_ledger("mine"), 0U);
  ASSERT_EQ(due().size(), 1U);
  EXPECT_EQ(due()[0].kind, Due::kWindowEnd);
  pass(kDuration, {process.get()});
  EXPECT_EQ(in_ledger("mine", current() - 1), 8U);
}

}  // namespace
}  // namespace weir::global
