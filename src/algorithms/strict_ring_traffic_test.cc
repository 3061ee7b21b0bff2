// Generated traffic through the strict ring: never above the limit, and the cost of that guarantee.

#include <map>

#include "algorithms/random_cases_test.h"
#include "algorithms/strict_ring.h"

namespace weir::algorithms {
namespace {

// Counts by sub-cell, without expiry.
class Ring {
 public:
  explicit Ring(Millis duration) : width_(ring_width(duration)) {}

  Decision decide(WallTime now, Ask ask) {
    const Position at = position_of(now, width_);
    RingCounts counts{};
    for (int i = 0; i < kRingCells; ++i) counts[i] = count_of(at.sequence - (kRingCells - 1) + i);
    const Decision decision = decide_ring(at, counts, ask);
    if (decision.admitted()) cells_[at.sequence] += ask.cost;
    return decision;
  }

  [[nodiscard]] Count count_of(int64_t sequence) const {
    const auto found = cells_.find(sequence);
    return found == cells_.end() ? 0 : found->second;
  }

 private:
  Millis width_;
  std::map<int64_t, Count> cells_;
};

// The admissions of a client that sends requests at every tick in [from, to) until it is denied.
Count saturate_ring(Ring& ring, Count limit, WallTime from, WallTime to) {
  Count admitted = 0;
  for (WallTime now = from; now < to; ++now) {
    while (ring.decide(now, {.capacity = limit, .cost = 1}).admitted()) ++admitted;
  }
  return admitted;
}

RC_GTEST_PROP(StrictRing, NeverAdmitsMoreThanTheLimitInAnyTrailingWindow, ()) {
  const Millis duration = *millis_between(kMinDuration, Millis(3000));
  const Count limit = *between(1, 30);
  Ring ring(duration);
  Admissions admissions;
  WallTime now = *any_time();
  for (const Arrival& arrival : *any_traffic(2 * duration, limit)) {
    now += arrival.after;
    const Decision decision = ring.decide(now, {.capacity = limit, .cost = arrival.cost});
    if (decision.admitted()) admissions.add(now, arrival.cost);
    // Often retries exactly at the retry time, where the bound is tightest.
    if (decision.retry_at && *decision.retry_at < now + duration / 2) {
      now = *decision.retry_at;
      RC_ASSERT(ring.decide(now, {.capacity = limit, .cost = arrival.cost}).admitted());
      admissions.add(now, arrival.cost);
    }
  }
  RC_ASSERT(admissions.most_in_trailing(duration) <= limit);
}

RC_GTEST_PROP(StrictRing, HoldsExactlyTheLimitInSeventeenSubCellsWhenSaturated, ()) {
  const Millis duration = *millis_between(kMinDuration, Millis(400));
  const Millis width = ring_width(duration);
  const Count limit = *between(1, 30);
  Ring ring(duration);
  WallTime now = *any_time();
  // Some traffic first, so that the limit is not used up in one tick.
  for (const Arrival& arrival : *any_traffic(width, limit)) {
    now += arrival.after;
    (void)ring.decide(now, {.capacity = limit, .cost = arrival.cost});
  }
  const int64_t first = position_of(now, width).sequence;
  const int64_t end = first + 60;
  saturate_ring(ring, limit, now, WallTime(end * width));
  for (int64_t newest = first; newest < end; ++newest) {
    Count held = 0;
    for (int back = 0; back < kRingCells; ++back) held += ring.count_of(newest - back);
    RC_ASSERT(held == limit);
  }
}

TEST(StrictRing, AdmitsSixteenSeventeenthsOfTheLimitWhenSaturated) {
  constexpr Millis kWindow{1600};
  Ring ring(kWindow);
  // 17 windows are 16 rounds of 17 sub-cells.
  EXPECT_EQ(saturate_ring(ring, 17, tick(0), tick(17 * kWindow.count())), 16u * 17u);
}

TEST(StrictRing, AdmitsLessThanThatOnlyIfSixteenDoesNotDivideTheDuration) {
  Ring ring(kMinDuration);
  // Sub-cells of 7 ms: 17 of them are 119 ms, so 119 windows of 100 ms are 100 rounds.
  EXPECT_EQ(saturate_ring(ring, 17, tick(0), tick(119 * 100)), 100u * 17u);
  // Rounding up matters for short sub-cells: 113 of 136 at the worst duration, 113 ms.
  for (int64_t duration = kMinDuration.count(); duration <= 100'000; ++duration) {
    const int64_t round = kRingCells * ring_width(Millis(duration)).count();
    ASSERT_GE(duration * 136, round * 113) << duration;
    ASSERT_TRUE(duration <= 1600 || duration * 100 > round * 93) << duration;
    ASSERT_EQ(duration % kRingParts == 0, duration * 17 == round * 16) << duration;
  }
}

}  // namespace
}  // namespace weir::algorithms
