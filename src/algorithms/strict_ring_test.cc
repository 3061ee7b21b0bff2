// One decision over seventeen counts: the remaining capacity and the retry time.

#include "algorithms/strict_ring.h"

#include "algorithms/random_cases_test.h"
#include "base/wide.h"

namespace weir::algorithms {
namespace {

struct HeldRing {
  Position at{};
  RingCounts counts{};
  Ask ask{};

  friend std::ostream& operator<<(std::ostream& out, const HeldRing& held) {
    out << "sub-cell " << held.at.sequence << " + " << held.at.offset.count() << " of "
        << held.at.width.count() << ", limit " << held.ask.capacity << ", cost " << held.ask.cost
        << ", counts";
    for (const Count count : held.counts) out << " " << count;
    return out;
  }
};

// The same ring at `then`, without requests in between: counts move towards the old end and leave
// the window.
Decision decide_at(WallTime then, const HeldRing& held) {
  const Position at = position_of(then, held.at.width);
  const int64_t cells_on = at.sequence - held.at.sequence;
  RingCounts counts{};
  for (int64_t i = cells_on; i < kRingCells; ++i) counts[i - cells_on] = held.counts[i];
  return decide_ring(at, counts, held.ask);
}

Decision decide_with(const HeldRing& held, Count cost) {
  return decide_ring(held.at, held.counts, {.capacity = held.ask.capacity, .cost = cost});
}

rc::Gen<HeldRing> any_held_ring() {
  return rc::gen::exec([] {
    HeldRing held;
    held.at = position_of(*any_time(), ring_width(*any_duration()));
    held.ask.capacity = *between(1, kLargestLimit);
    held.ask.cost = *any_cost(held.ask.capacity);
    // Few sub-cells have counts, and sometimes none.
    const uint64_t used = *between(0, 5);
    for (uint64_t i = 0; i < used; ++i) {
      held.counts[*between(0, kRingCells - 1)] = *between(0, held.ask.capacity / 4 + 1);
    }
    if (used > 0) held.counts[*between(0, kRingCells - 1)] = *between(0, held.ask.capacity);
    return held;
  });
}

constexpr Millis kCell{100};  // the sub-cell of a window of 1.6 s

TEST(StrictRing, HasSubCellsThatNeverSpanLessThanTheWindow) {
  EXPECT_EQ(ring_width(Millis(1600)), Millis(100));
  EXPECT_EQ(ring_width(Millis(1601)), Millis(101));
  EXPECT_EQ(ring_width(kMinDuration), Millis(7));
  for (Millis duration = kMinDuration; duration < Millis(5000); ++duration) {
    ASSERT_GE(kRingParts * ring_width(duration), duration);
  }
}

TEST(StrictRing, PassesExactlyAtTheLimitAndNotBeyond) {
  HeldRing held{.at = {.sequence = 50, .width = kCell}, .ask = {.capacity = 10, .cost = 3}};
  held.counts[0] = 3;
  held.counts[16] = 4;
  EXPECT_TRUE(decide_with(held, 3).admitted());
  EXPECT_EQ(decide_with(held, 3).remaining, 0u);
  EXPECT_EQ(decide_with(held, 4).outcome, Outcome::kDenied);
  EXPECT_EQ(decide_with(held, 4).remaining, 3u);
}

TEST(StrictRing, CountsASubCellInFullUntilSixteenOthersHaveBegunAfterIt) {
  HeldRing held{.at = {.sequence = 50, .width = kCell}, .ask = {.capacity = 10, .cost = 1}};
  held.counts[16] = 10;
  EXPECT_EQ(decide_at(tick(5000), held).retry_at, tick(6700));
  EXPECT_FALSE(decide_at(tick(6699), held).admitted());
  EXPECT_TRUE(decide_at(tick(6700), held).admitted());
}

TEST(StrictRing, LetsAPeekPassAtExactlyFullAndNotAboveIt) {
  HeldRing held{.at = {.sequence = 50, .width = kCell}, .ask = {.capacity = 10, .cost = 0}};
  held.counts[3] = 10;
  EXPECT_TRUE(decide_with(held, 0).admitted());
  held.counts[4] = 1;
  EXPECT_EQ(decide_with(held, 0).outcome, Outcome::kDenied);
}

TEST(StrictRing, IsResetWhenItsNewestUsageHasLeft) {
  HeldRing held{.at = {.sequence = 50, .offset = Millis(30), .width = kCell},
                .ask = {.capacity = 10, .cost = 0}};
  EXPECT_EQ(decide_with(held, 0).reset, tick(5030));  // no usage
  held.counts[3] = 10;
  EXPECT_EQ(decide_with(held, 0).reset, tick(5400));
  EXPECT_EQ(decide_with(held, 1).reset, tick(5400));
  held.counts[3] = 9;
  EXPECT_EQ(decide_with(held, 1).reset, tick(6700));  // the one just admitted is the newest
}

TEST(StrictRing, NeverAdmitsACostBeyondTheLimitAndReturnsNoRetryTime) {
  HeldRing held{.at = {.sequence = 50, .width = kCell}, .ask = {.capacity = 10, .cost = 11}};
  EXPECT_EQ(decide_with(held, 10).outcome, Outcome::kAdmitted);
  EXPECT_EQ(decide_with(held, 11).outcome, Outcome::kNever);
  EXPECT_EQ(decide_with(held, 11).retry_at, std::nullopt);
  EXPECT_EQ(decide_with(held, 11).remaining, 10u);
}

RC_GTEST_PROP(StrictRing, EstimateNeverFallsWhenACountRisesAndRisesByAtMostAsMuch, ()) {
  for (int round = 0; round < 50; ++round) {
    HeldRing held = *any_held_ring();
    const Count before = ring_estimate(held.counts);
    const Count more = *between(0, kLargestLimit);
    held.counts[*between(0, kRingCells - 1)] += more;
    const Count after = ring_estimate(held.counts);
    RC_ASSERT(after >= before);
    RC_ASSERT(after - before <= more);
  }
}

RC_GTEST_PROP(StrictRing, PassesAtItsRetryTimeAndNotOneTickEarlier, ()) {
  for (int round = 0; round < 100; ++round) {
    const HeldRing held = *any_held_ring();
    const Decision decision = decide_with(held, held.ask.cost);
    RC_ASSERT(decision.retry_at.has_value() == (decision.outcome == Outcome::kDenied));
    if (!decision.retry_at) continue;
    RC_ASSERT(*decision.retry_at > held.at.start() + held.at.offset);
    RC_ASSERT(decide_at(*decision.retry_at, held).admitted());
    RC_ASSERT(!decide_at(*decision.retry_at - Millis(1), held).admitted());
  }
}

RC_GTEST_PROP(StrictRing, ReturnsTheCostThatWouldStillPass, ()) {
  for (int round = 0; round < 50; ++round) {
    const HeldRing held = *any_held_ring();
    const Decision decision = decide_with(held, held.ask.cost);
    HeldRing after = held;
    if (decision.admitted()) after.counts[kRingCells - 1] += held.ask.cost;
    RC_ASSERT(decision.remaining ==
              base::saturating_sub(held.ask.capacity, ring_estimate(after.counts)));
    RC_ASSERT(!decide_with(after, decision.remaining + 1).admitted());
    if (decision.remaining > 0) RC_ASSERT(decide_with(after, decision.remaining).admitted());
  }
}

}  // namespace
}  // namespace weir::algorithms
