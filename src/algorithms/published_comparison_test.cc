// The figures of a published comparison of limiters, repeated on deterministic schedules: where the
// textbook formulas are off by one, and how this implementation compares.

#include "algorithms/backlog.h"
#include "algorithms/random_cases_test.h"
#include "algorithms/windows.h"

namespace weir::algorithms {
namespace {

// --- the off-by-one of GCRA: 10 a second, a burst of 10 ---

constexpr int64_t kIntervalMs = 100;

enum class Passes : uint8_t { kAtOrAfter, kOnlyAfter };

// The formula as it is usually written, in whole milliseconds, without checks.
struct Textbook {
  int64_t tolerance_ms = 0;
  Passes passes = Passes::kAtOrAfter;
  int64_t tat_ms = 0;

  bool admit(int64_t now_ms) {
    const int64_t earliest = tat_ms - tolerance_ms;
    if (passes == Passes::kAtOrAfter ? now_ms < earliest : now_ms <= earliest) return false;
    tat_ms = std::max(now_ms, tat_ms) + kIntervalMs;
    return true;
  }
};

struct Totals {
  int at_once = 0;  // of these, at the first tick
  int admitted = 0;
  friend bool operator==(const Totals&, const Totals&) = default;
};

// A saturating client: at every tick from 0 to 3000, both included, it sends requests until one is
// denied. Such totals need a stated schedule: the article reports 41 for `burst * T` with `>`, but
// its clock ended somewhere after 3 s, which is noise.
template <typename Admit>
Totals saturate(const Admit& admit) {
  Totals totals;
  for (int64_t now = 0; now <= 3000; ++now) {
    while (admit(now)) ++totals.admitted;
    if (now == 0) totals.at_once = totals.admitted;
  }
  return totals;
}

Totals saturate(Textbook formula) {
  return saturate([&](int64_t now) { return formula.admit(now); });
}

TEST(PublishedComparison, ShowsThatOneOfFourTextbookFormsOfGcraIsRight) {
  constexpr int64_t kBurst = 10;
  constexpr int64_t kWhole = kBurst * kIntervalMs;
  constexpr int64_t kLessOne = (kBurst - 1) * kIntervalMs;
  EXPECT_EQ(saturate(Textbook{kWhole, Passes::kAtOrAfter}),
            (Totals{.at_once = 11, .admitted = 41}));
  EXPECT_EQ(saturate(Textbook{kWhole, Passes::kOnlyAfter}),
            (Totals{.at_once = 10, .admitted = 40}));
  EXPECT_EQ(saturate(Textbook{kLessOne, Passes::kOnlyAfter}),
            (Totals{.at_once = 9, .admitted = 39}));
  EXPECT_EQ(saturate(Textbook{kLessOne, Passes::kAtOrAfter}),
            (Totals{.at_once = 10, .admitted = 40}));
}

TEST(PublishedComparison, ShowsThatTheStrictFormAdmitsOneMoreATickAfterTheBurst) {
  // Its totals are right, but its admissions are spread wrongly: a burst of 11 within a
  // millisecond.
  Textbook whole{10 * kIntervalMs, Passes::kOnlyAfter};
  int admitted = 0;
  while (whole.admit(0)) ++admitted;
  EXPECT_EQ(admitted, 10);
  EXPECT_TRUE(whole.admit(1));
}

TEST(PublishedComparison, ShowsTenAtOnceAndFortyInTotalForTheBacklog) {
  const Pace pace = pace_of(10, Millis(1000));
  Backlog backlog = empty_backlog(tick(0), Millis(1000));
  const Totals totals = saturate([&](int64_t now) {
    const auto decision = decide_backlog(tick(now), backlog, pace, {.capacity = 10, .cost = 1});
    if (decision.admitted()) backlog.tat = decision.tat;
    return decision.admitted();
  });
  EXPECT_EQ(totals, (Totals{.at_once = 10, .admitted = 40}));
}

TEST(PublishedComparison, ShowsThatABurstOfZeroWouldHalveTheRateAndNotDenyAll) {
  // Validation rejects a burst below 1, because this error would go unnoticed.
  Textbook zero{-kIntervalMs, Passes::kAtOrAfter};
  EXPECT_FALSE(zero.admit(0));
  EXPECT_TRUE(zero.admit(100));
  EXPECT_FALSE(zero.admit(200));
  EXPECT_TRUE(zero.admit(300));
  EXPECT_EQ(saturate(Textbook{-kIntervalMs, Passes::kAtOrAfter}).admitted, 15);
}

// --- the sliding window: 10 a second for 3 seconds, from 0.6 of a window ---

using Split = std::vector<int>;  // what each window admitted

// A client sends one request at every tick from 600 to 3600, both included.
template <typename Fits>
Split split_of(const Fits& fits) {
  constexpr Millis kWindow{1000};
  Split split;
  WindowCounts counts;
  for (int64_t now = 600; now <= 3600; ++now) {
    const Position at = position_of(tick(now), kWindow);
    if (split.size() <= static_cast<size_t>(at.sequence)) {
      split.push_back(0);
      counts = {.previous = counts.current};
    }
    if (!fits(at, counts)) continue;
    ++counts.current;
    ++split.back();
  }
  return split;
}

TEST(PublishedComparison, AdmitsThirtyFourInThreeSecondsIfTheEstimateKeepsItsFraction) {
  // current + previous * (1 - elapsed) + 1 <= limit, all of it times the width.
  EXPECT_EQ(split_of([](const Position& at, const WindowCounts& counts) {
              const auto width = static_cast<uint64_t>(at.width.count());
              const auto rest = static_cast<uint64_t>((at.width - at.offset).count());
              return (counts.current + 1) * width + counts.previous * rest <= 10 * width;
            }),
            (Split{10, 9, 9, 6}));
}

TEST(PublishedComparison, AdmitsThirtySixIfTheEstimateIsRoundedDown) {
  EXPECT_EQ(split_of([](const Position& at, const WindowCounts& counts) {
              return decide_sliding(at, counts, {.capacity = 10, .cost = 1}).admitted();
            }),
            (Split{10, 10, 10, 6}));
}

}  // namespace
}  // namespace weir::algorithms
