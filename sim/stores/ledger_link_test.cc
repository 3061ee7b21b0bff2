// The link to the ledger delivers what the ledger has, and fails as its faults say.

#include "sim/stores/ledger_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "sim/stores/ledger_history.h"

namespace weir::sim {
namespace {

constexpr Millis kMinute{60'000};

class LedgerLinkTest : public ::testing::Test {
 protected:
  LedgerLinkTest() {
    ledger_.register_region("east");
    ledger_.register_region("west");
    ledger_.keep_states(Millis(10'000));
  }

  [[nodiscard]] LedgerRow row(Count count, std::string name = "alice") const {
    const int64_t window = timeline_.now().wall.time_since_epoch() / kMinute;
    return {.key = {.workspace = {}, .ns = "n", .identifier = std::move(name), .duration = kMinute},
            .sequence = window,
            .region = "east",
            .count = count,
            .limit_seen = 10,
            .leased_until = WallTime((window + 1) * kMinute)};
  }
  void run_for(Millis time) {
    const MonoTime end = timeline_.now().mono + time;
    timeline_.post_at(end, [] {});
    while (timeline_.step(end)) {
    }
  }
  // The position of the batch; none: it failed.
  FeedPosition publish(const std::vector<LedgerRow>& rows) {
    FeedPosition at;
    error_.reset();
    writer_.publish("east", known_, rows, [&](const Result<FeedPosition>& result) {
      if (result) {
        at = *result;
      } else {
        error_ = result.error();
      }
    });
    run_for(Millis(1000));
    if (at.epoch != 0) known_ = at;
    return at;
  }
  FeedChanges read_after(FeedPosition at) {
    FeedChanges changes;
    reader_.read_feeds({{.region = "east", .at = at}},
                       [&](const auto& received) { changes = *received; });
    run_for(Millis(1000));
    return changes;
  }
  static FeedPosition head_of(const FeedChanges& changes) {
    const auto east = std::find_if(changes.heads.begin(), changes.heads.end(),
                                   [](const RegionFeed& feed) { return feed.region == "east"; });
    return east == changes.heads.end() ? FeedPosition{} : east->at;
  }
  static RowId id_of(const LedgerRow& row) { return {cell_of(row), row.region}; }

  Timeline timeline_{1};
  LedgerHistory history_;
  int commits_ = 0;
  WatchedLedger ledger_{timeline_, {}, [this](const Committed& committed) {
                          ++commits_;
                          history_.note(timeline_.now().mono, committed.rows);
                        }};
  LedgerLink writer_{timeline_, ledger_, {.region = 0, .name = "east"}, 1};
  LedgerLink reader_{timeline_, ledger_, {.region = 1, .name = "west"}, 2};
  FeedPosition known_;
  std::optional<Error> error_;
};

TEST_F(LedgerLinkTest, DeliversBatchesInOrder) {
  const FeedPosition first = publish({row(1)});
  publish({row(2)});
  publish({row(3), row(1, "bob")});
  const FeedChanges changes = read_after(first);
  ASSERT_EQ(changes.batches.size(), 2u);
  EXPECT_EQ(changes.batches[1].rows.size(), 2u);
  EXPECT_EQ(head_of(changes), known_);
  EXPECT_EQ(ledger_.current(id_of(row(0))), 3u);
  EXPECT_EQ(ledger_.leased_until(tuple_of(row(0).key), "east"), row(0).leased_until);
}

TEST_F(LedgerLinkTest, RepeatedPublishIsAnotherBatchWithTheSameRows) {
  writer_.faults.repeat_permille = 1000;
  const FeedPosition at = publish({row(1)});
  EXPECT_EQ(commits_, 2);
  EXPECT_EQ(at.number, 1u);
  EXPECT_EQ(ledger_.current(id_of(row(0))), 1u);
  EXPECT_EQ(ledger_.counters().repeated, 1u);
}

TEST_F(LedgerLinkTest, ErrorsOfRowsNameTheRows) {
  writer_.faults.fail_permille = 1000;
  EXPECT_EQ(publish({row(1)}).epoch, 0u);
  EXPECT_EQ(error_->field, "rows");
  EXPECT_EQ(error_->retry, Retry::kMayHelp);
  writer_.faults.fail_permille = 0;
  writer_.rejected_name = "bob";
  EXPECT_EQ(publish({row(1), row(1, "bob")}).epoch, 0u);
  EXPECT_EQ(error_->field, "rows");
  EXPECT_EQ(error_->retry, Retry::kPointless);
  EXPECT_EQ(publish({row(1)}).number, 1u);
}

TEST_F(LedgerLinkTest, ReadOnlyRefusesAllRowsAndFullRefusesNewOnes) {
  publish({row(1)});
  writer_.faults.full = true;
  EXPECT_EQ(publish({row(2)}).number, 2u);
  EXPECT_EQ(publish({row(2), row(1, "bob")}).epoch, 0u);
  writer_.faults = {.read_only = true};
  EXPECT_EQ(publish({row(3)}).epoch, 0u);
}

TEST_F(LedgerLinkTest, IncompleteReplySaysThatThereIsMore) {
  const FeedPosition first = publish({row(1)});
  for (Count i = 2; i <= 5; ++i) publish({row(i)});
  reader_.faults.cut_permille = 1000;
  const FeedChanges changes = read_after(first);
  EXPECT_TRUE(changes.more);
  ASSERT_EQ(changes.batches.size(), 2u);
  EXPECT_EQ(changes.batches[0].at.number, 2u);
  EXPECT_EQ(reader_.counters.cut, 1u);
}

TEST_F(LedgerLinkTest, LaggingReplicaAnswersWithAnEarlierState) {
  const FeedPosition first = publish({row(1)});
  run_for(Millis(3000));
  publish({row(2)});
  reader_.faults.stale_permille = 1000;
  reader_.faults.stale = {Millis(3000), Millis(3000)};
  const FeedChanges changes = read_after(first);
  EXPECT_TRUE(changes.batches.empty());
  EXPECT_EQ(head_of(changes), first);
  LedgerPage page;
  reader_.read_page("east", {}, [&](const auto& received) { page = *received; });
  run_for(Millis(1000));
  ASSERT_EQ(page.rows.size(), 1u);
  EXPECT_EQ(page.rows[0].count, 1u);
  EXPECT_EQ(page.head, first);
}

TEST_F(LedgerLinkTest, DeletedBatchesLeaveAGapInTheFeed) {
  const FeedPosition first = publish({row(1)});
  ledger_.lose_next_batches("east", 1);
  publish({row(2)});
  publish({row(3)});
  const FeedChanges changes = read_after(first);
  ASSERT_EQ(changes.batches.size(), 1u);
  EXPECT_EQ(changes.batches[0].at.number, 3u);
  EXPECT_EQ(reader_.counters.gaps, 1u);
  EXPECT_EQ(ledger_.counters().feed_gaps, 1u);
}

TEST_F(LedgerLinkTest, FailoverTakesHeadsAndRowsBackAndTheNextBatchBeginsAnEpoch) {
  const FeedPosition first = publish({row(1)});
  const MonoTime then = timeline_.now().mono;
  run_for(Millis(100));
  publish({row(2), row(1, "bob")});
  ledger_.fail_over(then, Millis(0));
  EXPECT_EQ(ledger_.current(id_of(row(0))), 1u);
  EXPECT_EQ(ledger_.max_committed(id_of(row(0))), 2u);
  EXPECT_EQ(ledger_.counters().lost, 2u);
  EXPECT_EQ(head_of(read_after(first)), first);
  const FeedPosition next = publish({row(2), row(1, "bob")});
  EXPECT_GT(next.epoch, first.epoch);
  EXPECT_EQ(ledger_.counters().repaired, 2u);
  EXPECT_EQ(ledger_.counters().epochs, 1u);
}

TEST_F(LedgerLinkTest, PausedProcessReceivesRepliesWhenItWakes) {
  const MonoTime wakes = timeline_.now().mono + Millis(3000);
  writer_.pause_until(wakes);
  bool answered = false;
  writer_.publish("east", {}, {row(1)}, [&](const auto&) { answered = true; });
  run_for(Millis(2999));
  EXPECT_EQ(commits_, 1);
  EXPECT_FALSE(answered);
  run_for(Millis(10));
  EXPECT_TRUE(answered);
}

TEST_F(LedgerLinkTest, HistoryKnowsCountsAndLeasesOfEveryTime) {
  publish({row(1)});
  const MonoTime then = timeline_.now().mono;
  LedgerRow later = row(4);
  later.leased_until += kMinute;
  later.limit_seen = 8;
  publish({later});
  EXPECT_EQ(history_.count_at(id_of(later), then), 1u);
  EXPECT_EQ(history_.count_at(id_of(later), timeline_.now().mono), 4u);
  EXPECT_EQ(history_.limit_at(id_of(later), then), 10u);
  EXPECT_EQ(history_.limit_at(id_of(later), timeline_.now().mono), 8u);
  const std::string tuple = tuple_of(later.key);
  EXPECT_EQ(history_.leased_until(tuple, "east", then), row(0).leased_until);
  EXPECT_EQ(history_.leased_until(tuple, "east", timeline_.now().mono), later.leased_until);
}

TEST(Covers, LeaseMustReachTheEndOfTheWindow) {
  EXPECT_TRUE(covers(WallTime(6 * kMinute), 5, kMinute));
  EXPECT_FALSE(covers(WallTime(6 * kMinute) - Millis(1), 5, kMinute));
}

}  // namespace
}  // namespace weir::sim
