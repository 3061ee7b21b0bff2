// Changes of a backlog besides traffic: another rate, another burst, a clock that steps back, an
// epoch that is advanced, and the largest numbers.

#include "algorithms/backlog.h"

#include "algorithms/rates_test.h"

namespace weir::algorithms {
namespace {

uint64_t pulses_waiting(WallTime now, const Backlog& backlog, const Pace& pace) {
  const auto here = base::Wide{static_cast<uint64_t>((now - backlog.epoch).count())} * pace.den;
  return here < backlog.tat.since_epoch ? backlog.tat.since_epoch - static_cast<uint64_t>(here) : 0;
}

// Two rates over one duration: the limit was changed.
struct Change {
  Rate from{};
  Rate to{};
  Count used = 0;

  friend std::ostream& operator<<(std::ostream& out, const Change& change) {
    return out << change.used << " of " << change.from << ", then " << change.to;
  }
};

rc::Gen<Change> any_change() {
  return rc::gen::exec([] {
    Change change;
    change.from = *any_rate();
    change.used = *between(1, change.from.burst);
    do {
      change.to = {.limit = *between(1, kLargestLimit),
                   .duration = change.from.duration,
                   .burst = *between(1, kLargestLimit)};
    } while (!representable(change.to.pace(), change.to.limit, change.to.burst));
    return change;
  });
}

RC_GTEST_PROP(Backlog, KeepsItsUnitsWhenTheRateChanges, ()) {
  for (int round = 0; round < 30; ++round) {
    const Change change = *any_change();
    WallTime now = *any_time();
    StoredBacklog backlog(change.from, now);
    (void)backlog.decide(now, change.used);
    now += *millis_between(Millis(0), change.from.duration);
    const Pace from = change.from.pace();
    const Pace to = change.to.pace();
    const Count units = backlog_at(now, backlog.backlog, from);
    const uint64_t before = pulses_waiting(now, backlog.backlog, from);
    backlog.change(now, change.to);
    const uint64_t after = pulses_waiting(now, backlog.backlog, to);
    if (after == kMaxBurstPulses) continue;  // capped: more than any burst at the new rate
    // The number of units, rounded up, is the same; the fraction is rounded up by less than a
    // pulse of the new pace, to the strict side.
    RC_ASSERT(backlog_at(now, backlog.backlog, to) == units);
    RC_ASSERT(base::Wide{after} * from.num >= base::Wide{before} * to.num);
    RC_ASSERT(base::Wide{after} * from.num < base::Wide{before} * to.num + from.num);
  }
}

RC_GTEST_PROP(Backlog, PassesAtItsRetryTimeAfterItsRateOrBurstWasLowered, ()) {
  for (int round = 0; round < 30; ++round) {
    const Change change = *any_change();
    const WallTime now = *any_time();
    StoredBacklog backlog(change.from, now);
    (void)backlog.decide(now, change.used);
    backlog.change(now, change.to);
    const Count cost = *between(0, change.to.burst);
    const Decision decision = backlog.peek(now, cost);
    if (!decision.retry_at) continue;
    RC_ASSERT(!backlog.decide(*decision.retry_at - Millis(1), cost).admitted());
    RC_ASSERT(backlog.decide(*decision.retry_at, cost).admitted());
  }
}

TEST(Backlog, ReturnsTheTickAtWhichALoweredBurstHasCapacityAgain) {
  StoredBacklog backlog({.limit = 10, .duration = Millis(1000), .burst = 10}, tick(0));
  ASSERT_TRUE(backlog.decide(tick(0), 10).admitted());
  backlog.rate.burst = 2;
  // The backlog has ten units and may have two: nine must drain before one more passes.
  EXPECT_EQ(backlog.peek(tick(0), 1).retry_at, tick(900));
  EXPECT_EQ(backlog.peek(tick(0), 1).remaining, 0u);
  EXPECT_EQ(backlog.peek(tick(0), 0).outcome, Outcome::kDenied);
  EXPECT_FALSE(backlog.peek(tick(899), 1).admitted());
  EXPECT_TRUE(backlog.peek(tick(900), 1).admitted());
}

RC_GTEST_PROP(Backlog, AdmitsNoMoreWhenTheClockStepsBackAndKeepsItsRetryTime, ()) {
  for (int round = 0; round < 30; ++round) {
    const Rate rate = *any_rate();
    const WallTime now = *any_time();
    StoredBacklog backlog(rate, now);
    (void)backlog.decide(now, *between(1, rate.burst));
    const WallTime back = now - *millis_between(Millis(0), rate.duration);
    RC_ASSERT(backlog.peek(back, 0).remaining <= backlog.peek(now, 0).remaining);
    const Count cost = *between(1, rate.burst);
    const Decision before = backlog.peek(now, cost);
    const Decision after = backlog.peek(back, cost);
    RC_ASSERT(before.admitted() || after.retry_at == before.retry_at);
    RC_ASSERT(!after.retry_at || backlog.decide(*after.retry_at, cost).admitted());
  }
}

TEST(Backlog, ReachesAClockThatStepsBackByADuration) {
  const Backlog backlog = empty_backlog(tick(5000), Millis(1000));
  const Pace pace = pace_of(10, Millis(1000));
  EXPECT_TRUE(reaches(backlog.epoch, tick(4000), pace));
  EXPECT_FALSE(reaches(backlog.epoch, tick(3999), pace));
}

TEST(Backlog, HasDrainedNothingBeforeItsEpoch) {
  StoredBacklog backlog({.limit = 10, .duration = Millis(1000), .burst = 10}, tick(5000));
  ASSERT_TRUE(backlog.decide(tick(5000), 10).admitted());
  const Pace pace = backlog.rate.pace();
  const Backlog moved = rebased(tick(1000), Millis(1000), backlog.backlog, pace, pace);
  EXPECT_TRUE(reaches(moved.epoch, tick(1000), pace));
  EXPECT_EQ(backlog_at(tick(1000), moved, pace), 20u);  // ten units, plus the duration before them
}

TEST(Backlog, IsCappedAtAFullBurstAndNotRaisedToOne) {
  const Rate rate{.limit = 10, .duration = Millis(1000), .burst = 10};
  StoredBacklog backlog(rate, tick(5000));
  ASSERT_TRUE(backlog.decide(tick(5000), 10).admitted());
  // Half a second before the charge the backlog has fifteen units; at the charge ten; after it
  // five.
  const auto units_at = [&](int64_t now) {
    const Backlog cut = cut_to_burst(tick(now), backlog.backlog, rate.pace(), rate.burst);
    return backlog_at(tick(now), cut, rate.pace());
  };
  EXPECT_EQ(backlog_at(tick(4500), backlog.backlog, rate.pace()), 15u);
  EXPECT_EQ(units_at(4500), 10u);
  EXPECT_EQ(units_at(5000), 10u);
  EXPECT_EQ(units_at(5500), 5u);
}

TEST(Backlog, ReachesUntilPulsesNoLongerFit) {
  // 10^12 pulses per millisecond: an hour and a quarter.
  const Rate rate{.limit = kMaxLimit, .duration = Millis(1'000'003), .burst = kMaxLimit};
  ASSERT_EQ(rate.pace(), (Pace{.num = 1'000'003, .den = kMaxLimit}));
  ASSERT_TRUE(representable(rate.pace(), rate.limit, rate.burst));
  const auto last = static_cast<int64_t>(kMaxPulses / rate.pace().den);
  EXPECT_TRUE(reaches(tick(7), tick(7 + last), rate.pace()));
  EXPECT_FALSE(reaches(tick(7), tick(7 + last + 1), rate.pace()));
}

TEST(Backlog, LosesNothingWhenItsEpochIsAdvanced) {
  const Rate rate{.limit = kMaxLimit, .duration = Millis(1'000'003), .burst = kMaxLimit};
  StoredBacklog backlog(rate, tick(0));
  const auto last = static_cast<int64_t>(kMaxPulses / rate.pace().den);
  const WallTime end = backlog.backlog.epoch + Millis(last);
  ASSERT_TRUE(backlog.decide(end, rate.burst).admitted());
  const WallTime epoch = backlog.backlog.epoch;
  const Decision decision = backlog.decide(end + Millis(1), rate.burst);
  ASSERT_NE(backlog.backlog.epoch, epoch);
  EXPECT_EQ(decision.outcome, Outcome::kDenied);
  EXPECT_EQ(decision.remaining, rate.limit / 1'000'003);  // the units that drain in a millisecond
  EXPECT_EQ(decision.retry_at, end + rate.duration);
}

TEST(Backlog, HoldsTheLargestBurstAtTheLastReachableTick) {
  // 2^31 pulses per unit and 2^30 units: a burst of exactly 2^61 pulses.
  const Rate rate{.limit = 1, .duration = Millis(int64_t{1} << 31), .burst = Count{1} << 30};
  ASSERT_TRUE(representable(rate.pace(), rate.limit, rate.burst));
  ASSERT_FALSE(representable(rate.pace(), rate.limit, rate.burst + 1));
  StoredBacklog backlog(rate, tick(0));
  const WallTime end = backlog.backlog.epoch + Millis(static_cast<int64_t>(kMaxPulses));
  const Millis drained(static_cast<int64_t>(kMaxBurstPulses));
  const BacklogDecision all = backlog.decide(end, rate.burst);
  ASSERT_TRUE(all.admitted());
  EXPECT_EQ(all.tat.since_epoch, kMaxPulses + kMaxBurstPulses);
  EXPECT_EQ(all.reset, end + drained);
  EXPECT_EQ(backlog.peek(end, rate.burst).retry_at, end + drained);
  EXPECT_EQ(backlog.peek(end, 1).retry_at, end + rate.duration);
}

TEST(Backlog, HasAnIntervalAboveZeroAtTheFastestRate) {
  const Rate rate{.limit = kMaxLimit, .duration = kMinDuration, .burst = kMaxLimit};
  EXPECT_EQ(rate.pace(), (Pace{.num = 1, .den = 10'000'000'000}));
  StoredBacklog backlog(rate, tick(0));
  ASSERT_TRUE(backlog.decide(tick(0), kMaxLimit).admitted());
  EXPECT_EQ(backlog.peek(tick(0), 1).outcome, Outcome::kDenied);
  EXPECT_EQ(backlog.peek(tick(1), 0).remaining, 10'000'000'000u);
  EXPECT_TRUE(backlog.peek(tick(100), kMaxLimit).admitted());
  EXPECT_FALSE(backlog.peek(tick(99), kMaxLimit).admitted());
}

RC_GTEST_PROP(Backlog, IsExactAtAnyDurationForLimitsAndBurstsUpTo2To29, ()) {
  constexpr Count kAlwaysExact = Count{1} << 29;
  const Count limit = *between(1, kAlwaysExact);
  const Pace pace = pace_of(limit, *any_duration());
  RC_ASSERT(pace.num >= 1 && pace.den >= 1);
  RC_ASSERT(representable(pace, limit, *between(1, kAlwaysExact)));
}

RC_GTEST_PROP(Backlog, RisesByExactlyTheAdmittedCost, ()) {
  for (int round = 0; round < 30; ++round) {
    const Rate rate = *any_rate();
    const WallTime now = *any_time();
    StoredBacklog backlog(rate, now);
    (void)backlog.decide(now, *between(0, rate.burst));
    const WallTime then = now + *millis_between(Millis(0), rate.duration);
    const Count before = backlog_at(then, backlog.backlog, rate.pace());
    const Count cost = *between(0, rate.burst);
    const Decision decision = backlog.decide(then, cost);
    const Count after = backlog_at(then, backlog.backlog, rate.pace());
    RC_ASSERT(after == (decision.admitted() ? before + cost : before));
    RC_ASSERT(decision.remaining == rate.burst - after);
  }
}

}  // namespace
}  // namespace weir::algorithms
