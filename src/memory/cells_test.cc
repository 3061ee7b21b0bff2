// The guarantees of the cells of each class beyond the pure algorithm: time that does not run
// backwards, closed windows, separate own, sibling and foreign counts, refunds of batches.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <thread>
#include <vector>

#include "memory/log_cell.h"
#include "memory/table_fixture_test.h"
#include "memory/tentative.h"

namespace weir::memory {
namespace {

class Cells : public ::testing::Test {
 protected:
  // Charges `cost` at a time on a tuple of this algorithm.
  CellDecision ask(WallTime now, Count cost, Count limit = 10,
                   Algorithm algorithm = Algorithm::kSlidingWindow) {
    Request request = request_for("alice", limit, algorithm);
    request.cost = cost;
    const Subject subject(request, now);
    if (table_.create(subject.key, subject.query) == CreateResult::kFull) ADD_FAILURE();
    return charge(table_, subject);
  }
  Tuple tuple(Algorithm algorithm = Algorithm::kSlidingWindow) {
    return table_.find(Subject(request_for("alice", 10, algorithm)).key);
  }
  Table table_{64, Scope::kRegion};
};

TEST_F(Cells, StartANewWindowWithoutAReset) {
  EXPECT_TRUE(ask(kNoon, 10).decision.admitted());
  EXPECT_FALSE(ask(kNoon + Millis(59'999), 1).decision.admitted());
  EXPECT_TRUE(ask(kNoon + Millis(120'000), 10).decision.admitted());
}

TEST_F(Cells, DecideALateRequestAtTheStartOfTheNewestWindow) {
  ASSERT_TRUE(ask(kNoon + Millis(60'000), 9).decision.admitted());
  const CellDecision late = ask(kNoon + Millis(59'990), 1);
  EXPECT_TRUE(late.decision.admitted());
  EXPECT_EQ(late.sequence, (kNoon + Millis(60'000)).time_since_epoch() / Millis(60'000));
  EXPECT_FALSE(ask(kNoon + Millis(59'990), 1).decision.admitted());
}

TEST_F(Cells, AreRebuiltWhenTheClockWasSetBackByMoreThanAWindow) {
  ASSERT_TRUE(ask(kNoon + Millis(60'000), 10).decision.admitted());
  EXPECT_EQ(ask(kNoon - Millis(1), 1).status, DecisionStatus::kRebuild);
  EXPECT_NE(ask(kNoon, 1).status, DecisionStatus::kRebuild);
}

TEST_F(Cells, AreRebuiltWhenUnusedForLongerThanTheTagRange) {
  ASSERT_TRUE(ask(kNoon, 10).decision.admitted());
  EXPECT_NE(ask(kNoon + (kTagReach - 1) * Millis(60'000), 1).status, DecisionStatus::kRebuild);
  EXPECT_EQ(ask(kNoon + (2 * kTagReach - 1) * Millis(60'000), 1).status, DecisionStatus::kRebuild);
}

TEST_F(Cells, ChangeNoWordOnAPeek) {
  ASSERT_TRUE(ask(kNoon, 4).decision.admitted());
  const epoch::Guard guard;
  const Tuple found = tuple();
  std::array<uint64_t, 8> before{};
  for (int i = 0; i < 8; ++i) before[i] = found.slot->hot[i].load();
  for (const Millis later : {Millis(0), Millis(60'000), Millis(600'000), Millis(-600'000)}) {
    Request request = request_for("alice");
    request.cost = 3;
    (void)WindowCells(found).decide(query_of(kNoon + later, request), Effect::kPeek);
    request.cost = 0;
    (void)WindowCells(found).decide(query_of(kNoon + later, request), Effect::kConsume);
  }
  for (int i = 0; i < 8; ++i) EXPECT_EQ(found.slot->hot[i].load(), before[i]) << i;
}

TEST_F(Cells, KeepOwnSiblingsAndForeignSeparate) {
  ASSERT_TRUE(ask(kNoon, 2).decision.admitted());
  const int64_t sequence = kNoon.time_since_epoch() / Millis(60'000);
  {
    const epoch::Guard guard;
    const WindowCells cells(tuple());
    cells.raise_siblings(sequence, 3);
    cells.raise_foreign(sequence, 4);
    cells.raise_siblings(sequence, 1);  // an older count
    EXPECT_EQ(Tagged{cells.own(sequence).load()}.count(), 2u);
  }
  const CellDecision result = ask(kNoon, 1);
  EXPECT_TRUE(result.decision.admitted());
  EXPECT_EQ(result.evidence.own, 2u);
  EXPECT_EQ(result.evidence.siblings, 3u);
  EXPECT_EQ(result.evidence.foreign, 4u);
  EXPECT_EQ(result.decision.remaining, 0u);
  EXPECT_FALSE(ask(kNoon, 1).decision.admitted());
}

TEST_F(Cells, WeightTheCountsOfOthersInThePreviousWindow) {
  const int64_t sequence = kNoon.time_since_epoch() / Millis(60'000);
  ASSERT_TRUE(ask(kNoon, 1).decision.admitted());
  {
    const epoch::Guard guard;
    WindowCells(tuple()).raise_siblings(sequence, 5);
    WindowCells(tuple()).raise_foreign(sequence, 2);
  }
  // Half of 1 + 5 + 2 still counts.
  const CellDecision result = ask(kNoon + Millis(90'000), 6);
  EXPECT_TRUE(result.decision.admitted());
  EXPECT_EQ(result.evidence.previous, 4u);
  EXPECT_EQ(result.decision.remaining, 0u);
}

TEST_F(Cells, CloseThePreviousWindowBeforeTheNextIsCharged) {
  ASSERT_TRUE(ask(kNoon, 5).decision.admitted());
  ASSERT_TRUE(ask(kNoon + Millis(60'000), 1).decision.admitted());
  const epoch::Guard guard;
  const int64_t sequence = kNoon.time_since_epoch() / Millis(60'000);
  EXPECT_TRUE(Tagged{WindowCells(tuple()).own(sequence).load()}.closed());
  EXPECT_FALSE(Tagged{WindowCells(tuple()).own(sequence + 1).load()}.closed());
}

// A thread that is about to charge the old window for the first time finds it closed.
TEST_F(Cells, CloseThePreviousWindowEvenWithoutCharges) {
  ASSERT_TRUE(ask(kNoon, 0).decision.admitted());
  ASSERT_TRUE(ask(kNoon + Millis(180'000), 1).decision.admitted());
  const epoch::Guard guard;
  const int64_t sequence = (kNoon + Millis(180'000)).time_since_epoch() / Millis(60'000);
  Word& last = WindowCells(tuple()).own(sequence - 1);
  EXPECT_TRUE(Tagged{last.load()}.closed());
  EXPECT_TRUE(Tagged{last.load()}.is_of(sequence - 1));
}

TEST_F(Cells, RecognizeAnOldWordAfterAnyNumberOfWindowsWithoutAdmissions) {
  ASSERT_TRUE(ask(kNoon, 1).decision.admitted());
  const int64_t first = kNoon.time_since_epoch() / Millis(60'000);
  const epoch::Guard guard;
  Request too_much = request_for("alice");
  too_much.cost = 11;
  const WindowCells cells(tuple());
  for (int64_t window = 1; window < (int64_t{1} << 20); ++window) {
    for (const int64_t sequence : {first, first + 1}) {
      const Tagged own{cells.own(sequence).load()};
      ASSERT_TRUE(own.word == 0 || own.ahead_of(first + window) <= 0) << window;
    }
    const Query query = query_of(kNoon + window * Millis(60'000), too_much);
    ASSERT_FALSE(cells.decide(query, Effect::kConsume).decision.admitted());
  }
}

TEST_F(Cells, UseForeignCountsAfterAnyNumberOfWindowsWithoutOwnCharges) {
  ASSERT_TRUE(ask(kNoon, 10).decision.admitted());
  const int64_t first = kNoon.time_since_epoch() / Millis(60'000);
  const epoch::Guard guard;
  const WindowCells cells(tuple());
  for (int64_t window = 1; window < (int64_t{1} << 20); ++window) {
    ASSERT_TRUE(cells.raise_foreign(first + window, 10)) << window;
    Request request = request_for("alice");
    request.algorithm = Algorithm::kFixedWindow;
    const Query query = query_of(kNoon + window * Millis(60'000), request);
    ASSERT_FALSE(cells.decide(query, Effect::kPeek).decision.admitted()) << window;
  }
}

// Compares with counts by full sequence, over gaps of any length that does not rebuild the tuple.
RC_GTEST_PROP(CellsOverTime, CountAsIfTagsWereFullSequences, ()) {
  Table table(64, Scope::kRegion);
  Request request = request_for("alice", 1000);
  request.algorithm = Algorithm::kFixedWindow;
  const Subject subject(request);
  RC_ASSERT(table.create(subject.key, subject.query) == CreateResult::kCreated);
  const epoch::Guard guard;
  const WindowCells cells(table.find(subject.key));
  int64_t window = cells.newest();
  std::map<int64_t, Count> own, foreign;
  for (int round = 0; round < 200; ++round) {
    if (*rc::gen::inRange(0, 3) == 0) {
      window +=
          *rc::gen::oneOf(rc::gen::inRange<int64_t>(0, 3), rc::gen::inRange<int64_t>(0, kTagReach));
    }
    const auto cost = *rc::gen::inRange<Count>(1, 50);
    if (*rc::gen::arbitrary<bool>()) {
      (void)cells.raise_foreign(window, cost);
      foreign[window] = std::max(foreign[window], cost);
    }
    const WallTime now(window * request.duration);
    request.cost = *rc::gen::elementOf(std::vector<Count>{cost, 2000});
    const CellDecision result = cells.decide(query_of(now, request), Effect::kConsume);
    RC_ASSERT(result.status == DecisionStatus::kDecided);
    RC_ASSERT(result.evidence.own == own[window]);
    RC_ASSERT(result.evidence.foreign == foreign[window]);
    if (result.decision.admitted()) own[window] += request.cost;
  }
}

TEST_F(Cells, RecognizeAnOldRingStartAfterAnyNumberOfSubCells) {
  constexpr auto kStrict = Algorithm::kSlidingWindowStrict;
  const Millis width = algorithms::ring_width(Millis(60'000));
  ASSERT_TRUE(ask(kNoon, 10, 10, kStrict).decision.admitted());
  // Many charges, but never in the ring entry that was charged first.
  const int64_t round = int64_t{1} << kTagBits;
  for (int64_t step = 100'001; step < round - 1000; step += 100'000) {
    ASSERT_TRUE(ask(kNoon + step * width, 1, 10, kStrict).decision.admitted());
  }
  EXPECT_TRUE(ask(kNoon + round * width, 1, 10, kStrict).decision.admitted());
  EXPECT_TRUE(ask(kNoon + round * width, 9, 10, kStrict).decision.admitted());
}

TEST_F(Cells, ReportOnlyTheSettledPartWhileABatchIsInFlight) {
  ASSERT_TRUE(ask(kNoon, 2).decision.admitted());
  const epoch::Guard guard;
  const WindowCells cells(tuple());
  const int64_t sequence = cells.newest();
  add_tentative(cells.tentative(), 5);
  EXPECT_EQ(settled(cells.own(sequence), cells.tentative())->count(), 0u);  // errs low
  Request request = request_for("alice");
  request.cost = 5;
  ASSERT_TRUE(cells.decide(query_of(kNoon, request), Effect::kConsume).decision.admitted());
  EXPECT_EQ(settled(cells.own(sequence), cells.tentative())->count(), 2u);
  cells.refund(sequence, 5);
  remove_tentative(cells.tentative(), 5);
  EXPECT_EQ(settled(cells.own(sequence), cells.tentative())->count(), 2u);
}

TEST_F(Cells, NeverReportTentativeCostAsSettledDuringConcurrentBatches) {
  ASSERT_TRUE(ask(kNoon, 2, 1'000'000).decision.admitted());
  const Tuple found = [&] {
    const epoch::Guard guard;
    return tuple();
  }();
  std::atomic<bool> stop{false};
  std::thread batches([&] {
    const epoch::Guard guard;
    const WindowCells cells(found);
    Request request = request_for("alice", 1'000'000);
    request.cost = 7;
    const Query query = query_of(kNoon, request);
    for (int i = 0; i < 20'000; ++i) {
      add_tentative(cells.tentative(), 7);
      const CellDecision result = cells.decide(query, Effect::kConsume);
      cells.refund(result.sequence, 7);
      remove_tentative(cells.tentative(), 7);
    }
    stop = true;
  });
  const epoch::Guard guard;
  const WindowCells cells(found);
  while (!stop) {
    if (const auto own = settled(cells.own(cells.newest()), cells.tentative())) {
      ASSERT_LE(own->count(), 2u);
    }
  }
  batches.join();
  EXPECT_EQ(settled(cells.own(cells.newest()), cells.tentative())->count(), 2u);
}

TEST_F(Cells, RefundABacklogAsIfItHadNeverBeenCharged) {
  ASSERT_TRUE(ask(kNoon, 3, 10, Algorithm::kGcra).decision.admitted());
  const epoch::Guard guard;
  const BacklogCell cell(tuple(Algorithm::kGcra));
  Request request = request_for("alice", 10, Algorithm::kGcra);
  request.cost = 5;
  ASSERT_TRUE(cell.decide(query_of(kNoon, request), Effect::kConsume).decision.admitted());
  cell.refund(5);
  request.cost = 0;
  EXPECT_EQ(cell.decide(query_of(kNoon, request), Effect::kConsume).decision.remaining, 7u);
}

TEST_F(Cells, DenyChargesOfOthersWhileARingOrALogIsLocked) {
  for (const Algorithm algorithm : {Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog}) {
    ASSERT_TRUE(ask(kNoon, 1, 10, algorithm).decision.admitted());
    const epoch::Guard guard;
    Word& head = tuple(algorithm).slot->hot[1];
    int spins = kHeadLockSpins;
    ASSERT_EQ(try_lock_head(head, spins), HeadLock::kLocked);
    EXPECT_EQ(try_lock_head(head, spins), HeadLock::kTimeout);
    const CellDecision denied = ask(kNoon, 1, 10, algorithm);
    EXPECT_FALSE(denied.decision.admitted());
    EXPECT_EQ(denied.decision.retry_at, kNoon + Millis(1));
    EXPECT_TRUE(ask(kNoon, 0, 10, algorithm).decision.admitted());  // a peek needs no lock
    unlock_head(head);
    EXPECT_TRUE(ask(kNoon, 9, 10, algorithm).decision.admitted());
    EXPECT_FALSE(ask(kNoon, 1, 10, algorithm).decision.admitted());
  }
}

// A thread may be suspended between reserving the numbers of its units and writing their stamps.
// Until it continues they count as admitted now, even in a buffer entry that was never written.
TEST_F(Cells, CountUnitsOfALogWhoseStampsAreNotWrittenYet) {
  ASSERT_TRUE(ask(kNoon, 1, 10, Algorithm::kSlidingLog).decision.admitted());
  const epoch::Guard guard;
  Word& head = tuple(Algorithm::kSlidingLog).slot->hot[1];
  head = LogHead::make(kNoon, LogHead{head.load()}.unit() + 6).word;
  EXPECT_TRUE(ask(kNoon, 3, 10, Algorithm::kSlidingLog).decision.admitted());
  EXPECT_FALSE(ask(kNoon, 1, 10, Algorithm::kSlidingLog).decision.admitted());
}

}  // namespace
}  // namespace weir::memory
