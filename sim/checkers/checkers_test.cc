// What checkers excuse and what they do not, where they once raised false alarms.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/keyed_hash.h"
#include "memory/tuple_key.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/oracle.h"
#include "sim/stores/watched_origin.h"

namespace weir::sim {
namespace {

constexpr Millis kWidth{1000};

// The record of a request that was sent in window 5.
RequestRecord answer_in(int64_t window, Count cost, bool charged) {
  RequestRecord record;
  record.tuple = "a";
  record.duration = kWidth;
  record.cost = cost;
  record.charged = charged;
  record.contributor.generation = 1;
  record.requested_at.wall = WallTime(5 * kWidth + Millis(900));
  record.answered_at.wall = WallTime(7 * kWidth + Millis(200));
  record.verdict.reset = WallTime((window + 1) * kWidth);
  return record;
}

TEST(Oracle, LatePeekDoesNotMakeItsBatchLate) {
  std::vector<RequestRecord> together{answer_in(6, 1, true), answer_in(7, 0, false)};
  mark_late_decisions(together);
  EXPECT_FALSE(together[0].late);
  EXPECT_EQ(together[0].decided_at(), together[0].requested_at.wall);
  EXPECT_TRUE(together[1].late);
}

TEST(Oracle, ItemChargedAfterItsWindowsMakesItsBatchLate) {
  std::vector<RequestRecord> together{answer_in(7, 1, true), answer_in(6, 1, true)};
  mark_late_decisions(together);
  EXPECT_TRUE(together[0].late);
  EXPECT_TRUE(together[1].late);
}

TEST(Oracle, SketchedItemInALaterWindowDoesNotMakeItsBatchLate) {
  std::vector<RequestRecord> together{answer_in(7, 1, true), answer_in(6, 1, true)};
  together[0].contributor.generation = 0;
  mark_late_decisions(together);
  EXPECT_TRUE(together[0].late);
  EXPECT_FALSE(together[1].late);
}

// Two regions; the second has committed a row that the first has not read.
class RowAtTheEnd : public ::testing::Test {
 protected:
  RowAtTheEnd() {
    oracle_.start_process(0, 1, Millis(0));
    const LedgerKey key{
        .workspace = {}, .ns = "sim", .identifier = "a", .duration = Millis(60'000)};
    const int64_t window = timeline_.now().wall.time_since_epoch() / key.duration;
    reader_[0].process = 0;
    reader_[0].cells.push_back({.tuple = tuple_of(key), .sequence = window, .generation = 1});
    RequestRecord read;
    read.contributor = {.process = 0, .generation = 1};
    read.tuple = tuple_of(key);
    read.verdict.outcome = Outcome::kAdmitted;
    (void)checker_->after_answer(view(), 0, read);
    const LedgerUser writer{.region = 1, .name = names_[1]};
    ledger_.commit(
        writer,
        {.region = names_[1],
         .rows =
             {{.key = key, .sequence = window, .region = names_[1], .count = 3, .limit_seen = 10}}},
        [](const auto&) {});
  }

  void wait(Millis how_long) {
    timeline_.post_in(how_long, [] {});
    timeline_.step(timeline_.now().mono + how_long);
    reader_[0].now = timeline_.now();
  }

  [[nodiscard]] GlobalView view() const {
    return {.regions = regions_,
            .ledger = ledger_,
            .history = history_,
            .now = timeline_.now(),
            .delays = {.import = Millis(300)},
            .rejected = rejected_tuples_};
  }

  const std::vector<std::string> names_{"reader", "writer"};
  Timeline timeline_{1};
  LedgerHistory history_;
  WatchedLedger ledger_{timeline_, {}, [this](const Committed& committed) {
                          history_.note(timeline_.now().mono, committed.rows);
                        }};
  Oracle oracle_;
  WatchedOrigin origin_{timeline_, Writing::kRaise, PlantedBug::kNone, [](const OriginWrite&) {}};
  std::vector<NodeView> reader_{1}, writer_{1};
  std::vector<RegionState> regions_{
      {.name = names_[0], .oracle = oracle_, .origin = origin_, .nodes = reader_},
      {.name = names_[1], .oracle = oracle_, .origin = origin_, .nodes = writer_}};
  std::set<std::string> rejected_tuples_;
  std::unique_ptr<GlobalChecker> checker_ = make_agreement_across_regions();
};

TEST_F(RowAtTheEnd, MayBeUnknownWhileItIsInFlight) {
  wait(Millis(300));
  EXPECT_FALSE(checker_->at_end(view()));
}

TEST_F(RowAtTheEnd, MustBeKnownOnceItCanHaveBeenRead) {
  wait(Millis(301));
  EXPECT_TRUE(checker_->at_end(view()));
}

}  // namespace
}  // namespace weir::sim
