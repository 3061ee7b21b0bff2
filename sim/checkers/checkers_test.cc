// What checkers excuse and what they do not, where they once raised false alarms.

#include <gtest/gtest.h>

#include <array>
#include <memory>
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

// Two regions admit a limit each, the second 8 s later and without a word of the first.
class ExcessOfTwoRegions : public ::testing::TestWithParam<Algorithm> {
 protected:
  static constexpr Millis kWindow{120'000};
  static constexpr Count kLimit = 100;

  ExcessOfTwoRegions() {
    for (size_t i = 0; i < 2; ++i) {
      oracles_[i].start_process(0, i + 1, Millis(0));
      nodes_[i][0].process = 0;
    }
    export_bounds(2);
    wait(kWindow - timeline_.now().wall.time_since_epoch() % kWindow);
  }

  void wait(Millis how_long) {
    timeline_.post_in(how_long, [] {});
    timeline_.step(timeline_.now().mono + how_long);
  }
  void export_bounds(double bound) {
    for (std::vector<NodeView>& nodes : nodes_) {
      nodes[0].sync.ready = true;
      nodes[0].sync.bound = nodes[0].sync.backlog_bound = nodes[0].sync.log_bound = bound;
    }
  }
  GlobalChecker::Violation admit(size_t region, Count cost) {
    RequestRecord record;
    record.contributor = {.process = 0, .generation = 1};
    const Request request{.ns = "sim",
                          .identifier = "a",
                          .limit = kLimit,
                          .duration = kWindow,
                          .algorithm = GetParam()};
    record.tuple = memory::TupleKey(request, base::KeyedHash(0)).encoded();
    record.duration = kWindow;
    record.algorithm = GetParam();
    record.limit = kLimit;
    record.cost = cost;
    record.charged = true;
    record.requested_at = record.answered_at = timeline_.now();
    record.verdict.outcome = Outcome::kAdmitted;
    record.verdict.basis = Basis::kLocal;
    const int64_t window = timeline_.now().wall.time_since_epoch() / kWindow;
    record.verdict.reset = WallTime((window + 1) * kWindow);
    const int index = static_cast<int>(region);
    if (record.is_local()) return checker_->after_local_answer(view(), index, record);
    oracles_[region].add(record);
    return checker_->after_answer(view(), index, record);
  }
  [[nodiscard]] GlobalView view() const {
    return {.regions = regions_,
            .ledger = ledger_,
            .history = history_,
            .now = timeline_.now(),
            .delays = {.import = Millis(300)},
            .rejected = rejected_tuples_};
  }

  const std::vector<std::string> names_{"east", "west"};
  Timeline timeline_{1};
  LedgerHistory history_;
  WatchedLedger ledger_{timeline_, {}, [](const Committed&) {}};
  std::array<Oracle, 2> oracles_;
  WatchedOrigin origin_{timeline_, Writing::kRaise, PlantedBug::kNone, [](const OriginWrite&) {}};
  std::array<std::vector<NodeView>, 2> nodes_{std::vector<NodeView>(1), std::vector<NodeView>(1)};
  std::vector<RegionState> regions_{
      {.name = names_[0], .oracle = oracles_[0], .origin = origin_, .nodes = nodes_[0]},
      {.name = names_[1], .oracle = oracles_[1], .origin = origin_, .nodes = nodes_[1]}};
  std::set<std::string> rejected_tuples_;
  std::unique_ptr<GlobalChecker> checker_ = make_exported_bound();
};

class ExcessInAWindow : public ExcessOfTwoRegions {};
class ExcessOfAState : public ExcessOfTwoRegions {};

TEST_P(ExcessInAWindow, MustBeExportedUntilTheWindowEnds) {
  EXPECT_FALSE(admit(0, kLimit));
  wait(Millis(8000));
  EXPECT_FALSE(admit(1, kLimit - 1));
  wait(Millis(20'000));
  EXPECT_FALSE(admit(1, 1));
  wait(Millis(15'000));
  EXPECT_FALSE(checker_->at_audit(view()));
  export_bounds(1.35);
  EXPECT_TRUE(checker_->at_audit(view())) << "the window goes on";
  nodes_[1][0].sync.bound = 2;
  EXPECT_FALSE(checker_->at_audit(view())) << "one node exports it";
  nodes_[1][0].sync.bound = 1.35;
  wait(kWindow);
  EXPECT_FALSE(checker_->at_audit(view()));
}

TEST_P(ExcessInAWindow, MayHaveBeenInFlight) {
  export_bounds(1.35);
  EXPECT_FALSE(admit(0, kLimit));
  wait(Millis(1000));
  EXPECT_FALSE(admit(1, kLimit));
  wait(Millis(15'000));
  EXPECT_FALSE(checker_->at_audit(view()));
}

// gcra reached 2.41 bursts where 2.0 was exported.
TEST_P(ExcessOfAState, MustBeExported) {
  EXPECT_FALSE(admit(0, 120));
  wait(Millis(1000));
  EXPECT_FALSE(admit(1, 130));
  wait(Millis(15'000));
  export_bounds(2.6);
  EXPECT_FALSE(admit(1, 1));
  export_bounds(2);
  EXPECT_TRUE(admit(1, 1));
}

TEST_P(ExcessOfAState, MayHaveBeenInFlight) {
  export_bounds(1.35);
  EXPECT_FALSE(admit(0, 120));
  wait(Millis(1000));
  EXPECT_FALSE(admit(1, 130));
}

INSTANTIATE_TEST_SUITE_P(Windows, ExcessInAWindow,
                         ::testing::Values(Algorithm::kFixedWindow, Algorithm::kSlidingWindow));
INSTANTIATE_TEST_SUITE_P(States, ExcessOfAState,
                         ::testing::Values(Algorithm::kGcra, Algorithm::kTokenBucket,
                                           Algorithm::kSlidingWindowStrict,
                                           Algorithm::kSlidingLog));

// A region of two processes with one tuple, which the first process evicts between the decision and
// the answer of a request: its admission has generation 0.
class EvictedBeforeTheAnswer : public ::testing::Test {
 protected:
  static constexpr Millis kMinute{60'000};
  static constexpr Count kLimit = 100;

  EvictedBeforeTheAnswer() {
    for (int node = 0; node < 2; ++node) {
      oracle_.start_process(node, static_cast<uint64_t>(node) + 1, Millis(5));
      nodes_[static_cast<size_t>(node)].node = nodes_[static_cast<size_t>(node)].process = node;
    }
    // Well within a window.
    wait(Millis(20'000) - timeline_.now().wall.time_since_epoch() % kMinute + kMinute);
    nodes_[1].cells.push_back({.tuple = tuple(), .sequence = window(), .generation = 1});
  }

  static std::string tuple() {
    const Request request{.ns = "sim", .identifier = "a", .limit = kLimit, .duration = kMinute};
    return memory::TupleKey(request, base::KeyedHash(0)).encoded();
  }
  [[nodiscard]] int64_t window() const { return timeline_.now().wall.time_since_epoch() / kMinute; }
  void wait(Millis how_long) {
    timeline_.post_in(how_long, [] {});
    timeline_.step(timeline_.now().mono + how_long);
  }

  // A request that a step admits. It waits for 10 ms.
  RequestRecord admit(int process, uint64_t generation, Evidence known) {
    RequestRecord record;
    record.node = process;
    record.contributor = {.process = process, .generation = generation};
    record.tuple = tuple();
    record.duration = kMinute;
    record.limit = kLimit;
    record.cost = 2;
    record.charged = true;
    record.requested_at = timeline_.now();
    wait(Millis(10));
    record.answered_at = timeline_.now();
    record.verdict.outcome = Outcome::kAdmitted;
    record.verdict.basis = Basis::kRefreshed;
    record.verdict.evidence = known;
    record.verdict.reset = WallTime((window() + 1) * kMinute);
    oracle_.add(record);
    return record;
  }
  // Its count at the origin.
  void tell(int process, uint64_t generation, Count total) {
    origin_.endpoint_of(process)->replay(
        {{.cell = {tuple(), window()},
          .writer = {.incarnation = static_cast<uint64_t>(process) + 1, .generation = generation},
          .total = total,
          .expires_at = WallTime((window() + 2) * kMinute)}},
        [](const auto&) {});
  }
  [[nodiscard]] RegionChecker::Violation check(const RequestRecord& record) const {
    return checker_->after_answer({.oracle = oracle_,
                                   .origin = origin_,
                                   .nodes = nodes_,
                                   .now = timeline_.now(),
                                   .guarantees = {.max_freshness = Millis(2000),
                                                  .read_deadline = Millis(50),
                                                  .evicts = true,
                                                  .acked_within = Millis(300),
                                                  .probed_within = Millis(0),
                                                  .max_clock_skew = Millis(0)}},
                                  record);
  }

  Timeline timeline_{1};
  Oracle oracle_;
  WatchedOrigin origin_{timeline_, Writing::kRaise, PlantedBug::kNone, [](const OriginWrite&) {}};
  std::vector<NodeView> nodes_{2};
  std::unique_ptr<RegionChecker> checker_ = make_regional_bound();
};

TEST_F(EvictedBeforeTheAnswer, ARequestKnewTheOwnCountOfItsDecision) {
  for (Count own = 0; own < 8; own += 2) {
    tell(0, 7, own + 2);
    EXPECT_FALSE(check(admit(0, 7, {.own = own})));
    wait(Millis(1000));
  }
  tell(0, 7, 10);
  EXPECT_FALSE(check(admit(0, 0, {.own = 8})));
  wait(Millis(1000));
  EXPECT_FALSE(check(admit(0, 0, {.own = 0, .siblings = 10})));
}

TEST_F(EvictedBeforeTheAnswer, ARequestMustKnowWhatTheOriginHad) {
  tell(0, 7, 2);
  EXPECT_FALSE(check(admit(0, 7, {})));
  wait(Millis(1000));
  tell(0, 7, 4);
  EXPECT_FALSE(check(admit(0, 0, {.own = 2})));
  wait(Millis(1000));
  EXPECT_TRUE(check(admit(0, 0, {.own = 0, .siblings = 3})));
}

TEST_F(EvictedBeforeTheAnswer, AnAdmissionMayBeUnknownWhileAnEarlierReadIsFresh) {
  tell(0, 7, 2);
  EXPECT_FALSE(check(admit(0, 0, {})));
  wait(Millis(1500));
  RequestRecord other = admit(1, 1, {});
  other.verdict.basis = Basis::kLocal;
  EXPECT_FALSE(check(other));
}

TEST_F(EvictedBeforeTheAnswer, AnAdmissionMustBeKnownByALaterRead) {
  tell(0, 7, 2);
  EXPECT_FALSE(check(admit(0, 0, {})));
  wait(Millis(2500));
  RequestRecord other = admit(1, 1, {});
  other.verdict.basis = Basis::kLocal;
  EXPECT_TRUE(check(other));
}

TEST_F(EvictedBeforeTheAnswer, AnAdmissionThatTheOriginLostMayBeUnknown) {
  tell(0, 7, 2);
  EXPECT_FALSE(check(admit(0, 0, {})));
  wait(Millis(2500));
  origin_.forget_all();
  RequestRecord other = admit(1, 1, {});
  other.verdict.basis = Basis::kLocal;
  EXPECT_FALSE(check(other));
}

}  // namespace
}  // namespace weir::sim
