// The sliding log compared with a naive implementation.

#include "algorithms/sliding_log.h"

#include <deque>

#include "algorithms/random_cases_test.h"

namespace weir::algorithms {
namespace {

// A stamp for every unit ever admitted; each decision reads all of them.
struct NaiveLog {
  Millis duration{0};
  std::deque<WallTime> stamps{};

  [[nodiscard]] Count in_window_at(WallTime now) const {
    return static_cast<Count>(std::count_if(stamps.begin(), stamps.end(), [&](WallTime stamp) {
      return stamp > now - duration && stamp <= now;
    }));
  }

  Decision decide(WallTime now, Ask ask) {
    const Count used = in_window_at(now);
    Decision decision;
    decision.remaining = base::saturating_sub(ask.capacity, used);
    decision.reset = used == 0 ? now : stamps.back() + duration;
    if (ask.cost > ask.capacity) {
      decision.outcome = Outcome::kNever;
    } else if (used + ask.cost <= ask.capacity) {
      decision.outcome = Outcome::kAdmitted;
      decision.remaining -= ask.cost;
      if (ask.cost > 0) decision.reset = now + duration;
      stamps.insert(stamps.end(), ask.cost, now);
    } else {
      WallTime later = now + Millis(1);
      while (in_window_at(later) + ask.cost > ask.capacity) ++later;
      decision.retry_at = later;
    }
    return decision;
  }
};

// Contains the newest stamps only: one more than the largest limit so far.
struct ShortLog {
  Millis duration{0};
  Count kept = 0;
  std::deque<WallTime> stamps{};

  Decision peek(WallTime now, Ask ask) {
    kept = std::max(kept, ask.capacity + 1);
    return decide_log(now, duration, ask, [this](Count back) {
      return back > stamps.size() ? kNoStamp : stamps[stamps.size() - back];
    });
  }
  Decision decide(WallTime now, Ask ask) {
    const Decision decision = peek(now, ask);
    if (!decision.admitted()) return decision;
    stamps.insert(stamps.end(), ask.cost, now);
    while (stamps.size() > kept) stamps.pop_front();
    return decision;
  }
};

TEST(SlidingLog, PassesExactlyAtTheLimitAndNotBeyond) {
  ShortLog log{.duration = kSecond};
  EXPECT_TRUE(log.decide(tick(5000), {.capacity = 10, .cost = 7}).admitted());
  EXPECT_EQ(log.peek(tick(5999), {.capacity = 10, .cost = 4}).outcome, Outcome::kDenied);
  EXPECT_EQ(log.peek(tick(5999), {.capacity = 10, .cost = 4}).remaining, 3u);
  EXPECT_TRUE(log.peek(tick(5999), {.capacity = 10, .cost = 3}).admitted());
  EXPECT_EQ(log.peek(tick(5999), {.capacity = 10, .cost = 3}).remaining, 0u);
}

TEST(SlidingLog, DropsAUnitExactlyAWindowAfterItsStamp) {
  ShortLog log{.duration = kSecond};
  ASSERT_TRUE(log.decide(tick(5000), {.capacity = 1, .cost = 1}).admitted());
  EXPECT_EQ(log.peek(tick(5999), {.capacity = 1, .cost = 1}).retry_at, tick(6000));
  EXPECT_FALSE(log.peek(tick(5999), {.capacity = 1, .cost = 1}).admitted());
  EXPECT_TRUE(log.peek(tick(6000), {.capacity = 1, .cost = 1}).admitted());
}

TEST(SlidingLog, LetsAPeekPassAtExactlyFullAndNotAboveIt) {
  ShortLog log{.duration = kSecond};
  ASSERT_TRUE(log.decide(tick(5000), {.capacity = 10, .cost = 10}).admitted());
  EXPECT_TRUE(log.peek(tick(5000), {.capacity = 10, .cost = 0}).admitted());
  EXPECT_EQ(log.peek(tick(5000), {.capacity = 9, .cost = 0}).outcome, Outcome::kDenied);
}

TEST(SlidingLog, NeverAdmitsACostBeyondTheLimitAndReturnsNoRetryTime) {
  ShortLog log{.duration = kSecond};
  EXPECT_EQ(log.peek(tick(5000), {.capacity = 10, .cost = 11}).outcome, Outcome::kNever);
  EXPECT_EQ(log.peek(tick(5000), {.capacity = 10, .cost = 11}).retry_at, std::nullopt);
  EXPECT_TRUE(log.peek(tick(5000), {.capacity = 10, .cost = 10}).admitted());
}

TEST(SlidingLog, IsResetWhenItsNewestUnitHasLeft) {
  ShortLog log{.duration = kSecond};
  EXPECT_EQ(log.peek(tick(5000), {.capacity = 2, .cost = 0}).reset, tick(5000));
  EXPECT_EQ(log.decide(tick(5000), {.capacity = 2, .cost = 1}).reset, tick(6000));
  EXPECT_EQ(log.peek(tick(5999), {.capacity = 2, .cost = 0}).reset, tick(6000));
  EXPECT_EQ(log.peek(tick(6000), {.capacity = 2, .cost = 0}).reset, tick(6000));
}

TEST(SlidingLog, SupportsTheLargestLimit) {
  ShortLog log{.duration = kSecond};
  const Ask all{.capacity = kMaxLogLimit, .cost = kMaxLogLimit};
  ASSERT_TRUE(log.decide(tick(5000), all).admitted());
  EXPECT_EQ(log.peek(tick(5500), all).retry_at, tick(6000));
  EXPECT_TRUE(log.peek(tick(6000), all).admitted());
}

RC_GTEST_PROP(SlidingLog, DecidesAsTheNaiveLogDoesUnderChangingLimits, ()) {
  const Millis duration = *millis_between(kMinDuration, Millis(300));
  NaiveLog naive{.duration = duration};
  ShortLog log{.duration = duration};
  WallTime now = *any_time();
  for (const Arrival& arrival : *any_traffic(2 * duration, 12)) {
    now += arrival.after;
    const Ask ask{.capacity = *between(1, 12), .cost = arrival.cost};
    const Decision expected = naive.decide(now, ask);
    const Decision decided = log.decide(now, ask);
    RC_ASSERT(decided.outcome == expected.outcome);
    RC_ASSERT(decided.remaining == expected.remaining);
    RC_ASSERT(decided.reset == expected.reset);
    RC_ASSERT(decided.retry_at == expected.retry_at);
    if (!decided.retry_at) continue;
    RC_ASSERT(log.peek(*decided.retry_at, ask).admitted());
    RC_ASSERT(!log.peek(*decided.retry_at - Millis(1), ask).admitted());
  }
}

RC_GTEST_PROP(SlidingLog, NeverAdmitsMoreThanTheLimitInAnyTrailingWindow, ()) {
  const Millis duration = *millis_between(kMinDuration, Millis(3000));
  const Count limit = *between(1, 30);
  ShortLog log{.duration = duration};
  Admissions admissions;
  WallTime now = *any_time();
  for (const Arrival& arrival : *any_traffic(2 * duration, limit)) {
    now += arrival.after;
    const Decision decision = log.decide(now, {.capacity = limit, .cost = arrival.cost});
    if (decision.admitted()) admissions.add(now, arrival.cost);
    RC_ASSERT(decision.remaining == limit - admissions.in_trailing(now, duration));
  }
  RC_ASSERT(admissions.most_in_trailing(duration) <= limit);
}

}  // namespace
}  // namespace weir::algorithms
