// One decision over two counts: the estimate, the remaining capacity and the retry time.

#include "algorithms/windows.h"

#include "algorithms/random_cases_test.h"

namespace weir::algorithms {
namespace {

// A request and the counts at its time.
struct HeldWindows {
  WallTime now{};
  Millis width{0};
  WindowCounts counts{};
  Ask ask{};

  [[nodiscard]] Position at() const { return position_of(now, width); }
  friend std::ostream& operator<<(std::ostream& out, const HeldWindows& held) {
    return out << "at " << held.now.time_since_epoch().count() << ", width " << held.width.count()
               << ", current " << held.counts.current << ", previous " << held.counts.previous
               << ", limit " << held.ask.capacity << ", cost " << held.ask.cost;
  }
};

// The counts of the two cells at `then`, without requests in between.
WindowCounts counts_at(WallTime then, const HeldWindows& held) {
  const int64_t windows_on = position_of(then, held.width).sequence - held.at().sequence;
  if (windows_on == 0) return held.counts;
  return windows_on == 1 ? WindowCounts{.previous = held.counts.current} : WindowCounts{};
}

Decision slide_at(WallTime then, const HeldWindows& held, Count cost) {
  return decide_sliding(position_of(then, held.width), counts_at(then, held),
                        {.capacity = held.ask.capacity, .cost = cost});
}
Decision slide(const HeldWindows& held) {
  return slide_at(held.now, held, held.ask.cost);
}

Decision fix_at(WallTime then, const HeldWindows& held, Count cost) {
  return decide_fixed(position_of(then, held.width), counts_at(then, held),
                      {.capacity = held.ask.capacity, .cost = cost});
}
Decision fix(const HeldWindows& held) {
  return fix_at(held.now, held, held.ask.cost);
}

rc::Gen<HeldWindows> any_held_windows() {
  return rc::gen::exec([] {
    HeldWindows held;
    held.now = *any_time();
    held.width = *any_duration();
    held.ask.capacity = *between(1, kLargestLimit);
    held.ask.cost = *any_cost(held.ask.capacity);
    held.counts = {.current = *any_count(held.ask.capacity),
                   .previous = *any_count(held.ask.capacity)};
    return held;
  });
}

TEST(SlidingWindow, CountsThePreviousWindowInFullAtItsOwnStart) {
  const HeldWindows held{
      .now = tick(5000), .width = kSecond, .counts = {.current = 3, .previous = 80}};
  EXPECT_EQ(sliding_estimate(held.at(), held.counts), 83u);
}

TEST(SlidingWindow, CountsHalfOfThePreviousWindowAtItsMiddle) {
  const HeldWindows held{
      .now = tick(5500), .width = kSecond, .counts = {.current = 3, .previous = 80}};
  EXPECT_EQ(sliding_estimate(held.at(), held.counts), 43u);
}

TEST(SlidingWindow, RoundsThePartThatIsCarriedOverDown) {
  const WindowCounts counts{.previous = 10};
  EXPECT_EQ(sliding_estimate(position_of(tick(5000), kSecond), counts), 10u);
  EXPECT_EQ(sliding_estimate(position_of(tick(5001), kSecond), counts), 9u);
  EXPECT_EQ(sliding_estimate(position_of(tick(5900), kSecond), counts), 1u);
  EXPECT_EQ(sliding_estimate(position_of(tick(5901), kSecond), counts), 0u);
}

TEST(SlidingWindow, PassesExactlyAtTheLimitAndNotBeyond) {
  HeldWindows held{.now = tick(5500),
                   .width = kSecond,
                   .counts = {.current = 3, .previous = 80},
                   .ask = {.capacity = 50, .cost = 7}};
  EXPECT_EQ(slide(held).outcome, Outcome::kAdmitted);
  EXPECT_EQ(slide(held).remaining, 0u);
  held.ask.cost = 8;
  EXPECT_EQ(slide(held).outcome, Outcome::kDenied);
  EXPECT_EQ(slide(held).remaining, 7u);
}

TEST(FixedWindow, PassesExactlyAtTheLimitAndNotBeyond) {
  HeldWindows held{.now = tick(5500),
                   .width = kSecond,
                   .counts = {.current = 3, .previous = 80},
                   .ask = {.capacity = 10, .cost = 7}};
  EXPECT_EQ(fix(held).outcome, Outcome::kAdmitted);
  EXPECT_EQ(fix(held).remaining, 0u);
  held.ask.cost = 8;
  EXPECT_EQ(fix(held).outcome, Outcome::kDenied);
  EXPECT_EQ(fix(held).retry_at, tick(6000));
}

TEST(Windows, LetAPeekPassAtExactlyFullAndNotAboveIt) {
  HeldWindows held{.now = tick(5500),
                   .width = kSecond,
                   .counts = {.current = 10},
                   .ask = {.capacity = 10, .cost = 0}};
  EXPECT_TRUE(slide(held).admitted());
  EXPECT_TRUE(fix(held).admitted());
  held.ask.capacity = 9;
  EXPECT_EQ(slide(held).outcome, Outcome::kDenied);
  EXPECT_EQ(fix(held).outcome, Outcome::kDenied);
}

TEST(Windows, EndWhereTheNextOneStarts) {
  const HeldWindows held{.now = tick(5999), .width = kSecond, .ask = {.capacity = 1, .cost = 1}};
  EXPECT_EQ(slide(held).reset, tick(6000));
  EXPECT_EQ(fix(held).reset, tick(6000));
  EXPECT_EQ(slide_at(tick(6000), held, 1).reset, tick(7000));
}

TEST(SlidingWindow, WaitsForTheEndOfTheNextWindowWhenTheCountIsExtreme) {
  // More usage than ticks: even at the last tick of the next window more than 1 is carried over.
  const HeldWindows held{.now = tick(5'000),
                         .width = kMinDuration,
                         .counts = {.current = kLargestCount},
                         .ask = {.capacity = 1, .cost = 1}};
  EXPECT_EQ(slide(held).retry_at, tick(5'200));
  EXPECT_TRUE(slide_at(tick(5'200), held, 1).admitted());
  EXPECT_FALSE(slide_at(tick(5'199), held, 1).admitted());
}

TEST(Position, TreatsTimesBefore1970As1970) {
  EXPECT_EQ(position_of(tick(-1), kSecond).sequence, 0);
  EXPECT_EQ(position_of(tick(-1), kSecond).offset, Millis(0));
  EXPECT_EQ(position_of(tick(999), kSecond).offset, Millis(999));
  EXPECT_EQ(position_of(tick(1000), kSecond).sequence, 1);
}

RC_GTEST_PROP(SlidingWindow, EstimateNeverFallsWhenACountRisesAndRisesByAtMostAsMuch, ()) {
  for (int round = 0; round < 50; ++round) {
    const HeldWindows held = *any_held_windows();
    const Count before = sliding_estimate(held.at(), held.counts);
    const Count more = *between(0, kLargestCount);
    for (const WindowCounts& counts :
         {WindowCounts{.current = held.counts.current + more, .previous = held.counts.previous},
          WindowCounts{.current = held.counts.current, .previous = held.counts.previous + more}}) {
      const Count after = sliding_estimate(held.at(), counts);
      RC_ASSERT(after >= before);
      RC_ASSERT(after - before <= more);
    }
  }
}

RC_GTEST_PROP(Windows, ReturnTheCostThatWouldStillPass, ()) {
  for (int round = 0; round < 50; ++round) {
    const HeldWindows held = *any_held_windows();
    for (const auto decide : {slide_at, fix_at}) {
      const Decision decision = decide(held.now, held, held.ask.cost);
      HeldWindows after = held;
      if (decision.admitted()) after.counts.current += held.ask.cost;
      RC_ASSERT(!decide(held.now, after, decision.remaining + 1).admitted());
      if (decision.remaining > 0) RC_ASSERT(decide(held.now, after, decision.remaining).admitted());
    }
  }
}

RC_GTEST_PROP(Windows, AdmitExactlyWhatFitsAndReturnTheRemaining, ()) {
  for (int round = 0; round < 50; ++round) {
    const HeldWindows held = *any_held_windows();
    const auto check = [&](const Decision& decision, Count estimate) {
      const bool fits = estimate + held.ask.cost <= held.ask.capacity;
      const Count left = base::saturating_sub(held.ask.capacity, estimate);
      RC_ASSERT(decision.admitted() == fits);
      RC_ASSERT(decision.remaining == (fits ? left - held.ask.cost : left));
      RC_ASSERT(decision.retry_at.has_value() == (decision.outcome == Outcome::kDenied));
      RC_ASSERT((decision.outcome == Outcome::kNever) == (held.ask.cost > held.ask.capacity));
    };
    check(slide(held), sliding_estimate(held.at(), held.counts));
    check(fix(held), held.counts.current);
  }
}

RC_GTEST_PROP(SlidingWindow, PassesAtItsRetryTimeAndNotOneTickEarlier, ()) {
  for (int round = 0; round < 150; ++round) {
    const HeldWindows held = *any_held_windows();
    const Decision decision = slide(held);
    if (!decision.retry_at) continue;
    RC_ASSERT(*decision.retry_at > held.now);
    RC_ASSERT(*decision.retry_at <= held.at().end() + held.width);
    RC_ASSERT(slide_at(*decision.retry_at, held, held.ask.cost).admitted());
    RC_ASSERT(!slide_at(*decision.retry_at - Millis(1), held, held.ask.cost).admitted());
  }
}

RC_GTEST_PROP(FixedWindow, PassesAtItsRetryTimeAndNotOneTickEarlier, ()) {
  for (int round = 0; round < 50; ++round) {
    const HeldWindows held = *any_held_windows();
    const Decision decision = fix(held);
    if (!decision.retry_at) continue;
    RC_ASSERT(*decision.retry_at == held.at().end());
    RC_ASSERT(fix_at(*decision.retry_at, held, held.ask.cost).admitted());
    RC_ASSERT(!fix_at(*decision.retry_at - Millis(1), held, held.ask.cost).admitted());
  }
}

}  // namespace
}  // namespace weir::algorithms
