// Generated traffic through the windows: their guarantees for any interval of time.

#include "algorithms/random_cases_test.h"
#include "algorithms/windows.h"

namespace weir::algorithms {
namespace {

// The two cells of one tuple in the simplest form.
class TwoCells {
 public:
  explicit TwoCells(Millis width) : width_(width) {}

  [[nodiscard]] WindowCounts counts_at(WallTime now) {
    const int64_t sequence = position_of(now, width_).sequence;
    if (sequence != sequence_) {
      counts_ = {.previous = sequence == sequence_ + 1 ? counts_.current : 0};
      sequence_ = sequence;
    }
    return counts_;
  }

  Decision slide(WallTime now, Ask ask) {
    const Decision decision = decide_sliding(position_of(now, width_), counts_at(now), ask);
    if (decision.admitted()) counts_.current += ask.cost;
    return decision;
  }

  Decision fix(WallTime now, Ask ask) {
    const Decision decision = decide_fixed(position_of(now, width_), counts_at(now), ask);
    if (decision.admitted()) counts_.current += ask.cost;
    return decision;
  }

 private:
  Millis width_;
  int64_t sequence_ = 0;
  WindowCounts counts_{};
};

RC_GTEST_PROP(FixedWindow, NeverAdmitsMoreThanTheLimitBetweenTwoOfItsStarts, ()) {
  const Millis width = *millis_between(kMinDuration, Millis(2000));
  const Count limit = *between(1, 30);
  TwoCells cells(width);
  WallTime now = *any_time();
  int64_t sequence = -1;
  Count admitted = 0;
  for (const Arrival& arrival : *any_traffic(2 * width, limit)) {
    now += arrival.after;
    const Position at = position_of(now, width);
    if (at.sequence != sequence) admitted = 0;
    sequence = at.sequence;
    const bool fits = admitted + arrival.cost <= limit;
    RC_ASSERT(cells.fix(now, {.capacity = limit, .cost = arrival.cost}).admitted() == fits);
    if (fits) admitted += arrival.cost;
    RC_ASSERT(admitted <= limit);
  }
}

RC_GTEST_PROP(SlidingWindow, AdmitsOnlyWhatFitsItsEstimate, ()) {
  const Millis width = *millis_between(kMinDuration, Millis(2000));
  const Count limit = *between(1, 30);
  TwoCells cells(width);
  WallTime now = *any_time();
  for (const Arrival& arrival : *any_traffic(2 * width, limit)) {
    now += arrival.after;
    const Count before = sliding_estimate(position_of(now, width), cells.counts_at(now));
    const Decision decision = cells.slide(now, {.capacity = limit, .cost = arrival.cost});
    RC_ASSERT(decision.admitted() == (before + arrival.cost <= limit));
    const Count after = sliding_estimate(position_of(now, width), cells.counts_at(now));
    RC_ASSERT(after == (decision.admitted() ? before + arrival.cost : before));
    RC_ASSERT(after <= limit);
  }
}

RC_GTEST_PROP(SlidingWindow, NeverAdmitsMoreThanTwiceTheLimitInATrailingWindow, ()) {
  const Millis width = *millis_between(kMinDuration, Millis(2000));
  const Count limit = *between(1, 30);
  TwoCells cells(width);
  Admissions admissions;
  WallTime now = *any_time();
  for (const Arrival& arrival : *any_traffic(2 * width, limit)) {
    now += arrival.after;
    if (cells.slide(now, {.capacity = limit, .cost = arrival.cost}).admitted()) {
      admissions.add(now, arrival.cost);
    }
  }
  RC_ASSERT(admissions.most_in_trailing(width) <= 2 * limit);
}

TEST(SlidingWindow, ReachesTwiceTheLimitWhenFilledAtTheEndsOfTwoWindows) {
  TwoCells cells(Millis(1000));
  Admissions admissions;
  const Ask ten{.capacity = 10, .cost = 10};
  ASSERT_TRUE(cells.slide(tick(5999), ten).admitted());
  admissions.add(tick(5999), 10);
  ASSERT_FALSE(cells.slide(tick(6900), ten).admitted());  // a tenth of ten still counts 1
  ASSERT_TRUE(cells.slide(tick(6901), ten).admitted());
  admissions.add(tick(6901), 10);
  EXPECT_EQ(admissions.in_trailing(tick(6901), Millis(1000)), 20u);
}

TEST(FixedWindow, AdmitsTwoLimitsAtItsBoundaryWhereTheSlidingWindowDenies) {
  const Ask hundred{.capacity = 100, .cost = 100};
  TwoCells fixed(Millis(60'000));
  EXPECT_TRUE(fixed.fix(tick(59'999), hundred).admitted());
  EXPECT_TRUE(fixed.fix(tick(60'000), hundred).admitted());
  TwoCells sliding(Millis(60'000));
  EXPECT_TRUE(sliding.slide(tick(59'999), hundred).admitted());
  EXPECT_FALSE(sliding.slide(tick(60'000), hundred).admitted());
}

TEST(Windows, KeepTheCountWhenTheLimitChanges) {
  TwoCells cells(Millis(1000));
  ASSERT_TRUE(cells.slide(tick(5000), {.capacity = 10, .cost = 8}).admitted());
  const Decision lowered = cells.slide(tick(5000), {.capacity = 5, .cost = 1});
  EXPECT_EQ(lowered.outcome, Outcome::kDenied);
  EXPECT_EQ(lowered.remaining, 0u);
  const Decision raised = cells.slide(tick(5000), {.capacity = 20, .cost = 1});
  EXPECT_TRUE(raised.admitted());
  EXPECT_EQ(raised.remaining, 11u);
}

TEST(Windows, ShareOneCountBetweenFixedAndSliding) {
  TwoCells cells(Millis(1000));
  const Ask six{.capacity = 10, .cost = 6};
  ASSERT_TRUE(cells.fix(tick(5000), six).admitted());
  EXPECT_FALSE(cells.slide(tick(5000), six).admitted());
  EXPECT_FALSE(cells.slide(tick(6000), six).admitted());  // six are carried over in full
  EXPECT_TRUE(cells.fix(tick(6000), six).admitted());
}

}  // namespace
}  // namespace weir::algorithms
