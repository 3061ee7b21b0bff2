// What a checker excuses, and what it does not: for those that once complained without reason.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/keyed_hash.h"
#include "memory/tuple_key.h"
#include "sim/checkers/makers.h"
#include "sim/truth.h"
#include "sim/watched_origin.h"

namespace weir::sim {
namespace {

constexpr Millis kWidth{1000};

// An answer of a request that was asked in window 5.
Answered answer_in(int64_t window, Count cost, bool charged) {
  Answered answered;
  answered.tuple = "a";
  answered.duration = kWidth;
  answered.cost = cost;
  answered.charged = charged;
  answered.account.generation = 1;
  answered.asked.wall = WallTime(5 * kWidth + Millis(900));
  answered.answered.wall = WallTime(7 * kWidth + Millis(200));
  answered.verdict.reset = WallTime((window + 1) * kWidth);
  return answered;
}

TEST(Truth, DoesNotTakeABatchForLateBecauseOneOfItsPeeksWas) {
  std::vector<Answered> together{answer_in(6, 1, true), answer_in(7, 0, false)};
  find_late(together);
  EXPECT_FALSE(together[0].late);
  EXPECT_EQ(together[0].decided(), together[0].asked.wall);
  EXPECT_TRUE(together[1].late);
}

TEST(Truth, TakesAWholeBatchForLateIfOneItemWasChargedAfterItsWindows) {
  std::vector<Answered> together{answer_in(7, 1, true), answer_in(6, 1, true)};
  find_late(together);
  EXPECT_TRUE(together[0].late);
  EXPECT_TRUE(together[1].late);
}

TEST(Truth, DoesNotTakeABatchForLateBecauseTheSketchCountedAnItemInALaterWindow) {
  std::vector<Answered> together{answer_in(7, 1, true), answer_in(6, 1, true)};
  together[0].account.generation = 0;
  find_late(together);
  EXPECT_TRUE(together[0].late);
  EXPECT_FALSE(together[1].late);
}

// Two regions of which the second has written a row that the first has not read.
class RowAtTheEnd : public ::testing::Test {
 protected:
  RowAtTheEnd() {
    truth_.begin_life(0, 1, Millis(0));
    const LedgerKey key{
        .workspace = {}, .ns = "sim", .identifier = "a", .duration = Millis(60'000)};
    const int64_t window = timeline_.now().wall.time_since_epoch() / key.duration;
    reader_[0].life = 0;
    reader_[0].cells.push_back({.tuple = tuple_of(key), .sequence = window});
    const LedgerNews news{
        .rows = {{.key = key, .sequence = window, .region = names_[1], .count = 3}},
        .presences = {}};
    const LedgerUser writer{.region = 1, .name = names_[1]};
    ledger_.commit(writer, news, Millis(0), [](const auto&) {});
  }

  void wait(Millis how_long) {
    timeline_.post_in(how_long, [] {});
    timeline_.step(timeline_.now().mono + how_long);
    reader_[0].now = timeline_.now();
  }

  [[nodiscard]] FleetView view() const {
    return {.regions = regions_,
            .ledger = ledger_,
            .history = history_,
            .now = timeline_.now(),
            .delays = {.import = Millis(300)},
            .blamed = blamed_};
  }

  const std::vector<std::string> names_{"reader", "writer"};
  Timeline timeline_{1};
  LedgerHistory history_;
  WatchedLedger ledger_{timeline_, {}, [this](const Committed& committed) {
                          history_.note(timeline_.now().mono, committed.news);
                        }};
  Truth truth_;
  WatchedOrigin origin_{timeline_, Writing::kRaise, Plant::kNone, [](const Written&) {}};
  std::vector<NodeView> reader_{1}, writer_{1};
  std::vector<RegionView> regions_{
      {.name = names_[0], .truth = truth_, .origin = origin_, .nodes = reader_},
      {.name = names_[1], .truth = truth_, .origin = origin_, .nodes = writer_}};
  std::set<std::string> blamed_;
  std::unique_ptr<FleetChecker> checker_ = make_agreement_abroad();
};

TEST_F(RowAtTheEnd, MayBeUnknownWhileItIsOnItsWay) {
  wait(Millis(300));
  EXPECT_FALSE(checker_->at_end(view()));
}

TEST_F(RowAtTheEnd, MustBeKnownOnceItCanHaveBeenRead) {
  wait(Millis(301));
  EXPECT_TRUE(checker_->at_end(view()));
}

}  // namespace
}  // namespace weir::sim
