// The effect of a changed rate on a client: two methods to carry a backlog over, measured on the
// same schedules. docs/protocols/resp.md has the table and the choice.

#include <gtest/gtest.h>

#include "algorithms/backlog.h"
#include "algorithms/random_cases_test.h"
#include "algorithms/rates_test.h"

namespace weir::algorithms {
namespace {

enum class Carry : uint8_t { kUnits, kTime };

constexpr Rate kSmall{.limit = 10, .duration = Millis(60'000), .burst = 10};
constexpr Rate kLarge{.limit = 100, .duration = Millis(60'000), .burst = 100};

// A backlog whose rate may change with each request.
class OneKey {
 public:
  OneKey(Carry carry, const Rate& rate, WallTime now)
      : carry_(carry), rate_(rate), backlog_(empty_backlog(now, rate.duration)) {}

  // A denial does not change the state, so the backlog drains at the former rate until the next
  // admission.
  bool admit(WallTime now, const Rate& rate) {
    const auto rebase = carry_ == Carry::kUnits ? rebased : rebased_in_time;
    const Backlog moved = rebase(now, rate.duration, backlog_, rate_.pace(), rate.pace());
    const auto decision =
        decide_backlog(now, moved, rate.pace(), {.capacity = rate.burst, .cost = 1});
    if (!decision.admitted()) {
      reported_ = *decision.retry_at - now;
      return false;
    }
    backlog_ = {.epoch = moved.epoch, .tat = decision.tat};
    rate_ = rate;
    return true;
  }
  // The waiting time that the last denial reported.
  [[nodiscard]] Millis reported() const { return reported_; }

 private:
  Carry carry_;
  Rate rate_;
  Backlog backlog_;
  Millis reported_{0};
};

struct AfterAChange {
  int at_once = 0;
  Millis reported{0};  // the reported time until the next one passes
  Millis actual{0};
  int in_a_minute = 0;
  friend bool operator==(const AfterAChange&, const AfterAChange&) = default;
  friend std::ostream& operator<<(std::ostream& out, const AfterAChange& is) {
    return out << is.at_once << " at once, the next after " << is.actual.count() << " ms and not "
               << is.reported.count() << ", in a minute " << is.in_a_minute;
  }
};

// A client uses up the burst of one rate; then the rate changes, and the client sends requests at
// every tick until it is denied.
AfterAChange change(Carry carry, const Rate& from, const Rate& to) {
  OneKey key(carry, from, tick(0));
  while (key.admit(tick(0), from)) {
  }
  AfterAChange after;
  while (key.admit(tick(0), to)) ++after.at_once;
  after.reported = key.reported();
  after.in_a_minute = after.at_once;
  for (int64_t now = 1; now < 60'000; ++now) {
    while (key.admit(tick(now), to)) {
      ++after.in_a_minute;
      if (after.actual == Millis(0)) after.actual = Millis(now);
    }
  }
  return after;
}

TEST(ChangedRate, AllowsALargerLimitEarlierInUnits) {
  EXPECT_EQ(
      change(Carry::kUnits, kSmall, kLarge),
      (AfterAChange{
          .at_once = 90, .reported = Millis(600), .actual = Millis(600), .in_a_minute = 189}));
  EXPECT_EQ(change(Carry::kTime, kSmall, kLarge),
            (AfterAChange{
                .at_once = 0, .reported = Millis(600), .actual = Millis(600), .in_a_minute = 99}));
}

TEST(ChangedRate, ReportsTheActualWaitInTimeWhenALimitIsLowered) {
  EXPECT_EQ(
      change(Carry::kUnits, kLarge, kSmall),
      (AfterAChange{
          .at_once = 0, .reported = Millis(546'000), .actual = Millis(54'600), .in_a_minute = 1}));
  EXPECT_EQ(change(Carry::kTime, kLarge, kSmall),
            (AfterAChange{
                .at_once = 0, .reported = Millis(6000), .actual = Millis(6000), .in_a_minute = 9}));
}

// Requests at the large rate and at the small rate under one key, for ten minutes.
TEST(ChangedRate, StarvesTheSmallRateInUnitsWhenTheLargeOneSharesItsKey) {
  struct Both {
    int large = 0;
    int small = 0;
  };
  const auto share = [](Carry carry) {
    OneKey key(carry, kLarge, tick(0));
    Both both;
    for (int64_t now = 0; now < 600'000; now += 300) {
      both.large += key.admit(tick(now), kLarge) ? 1 : 0;
      if (now % 6000 == 0) both.small += key.admit(tick(now), kSmall) ? 1 : 0;
    }
    return both;
  };
  const Both units = share(Carry::kUnits);
  EXPECT_EQ(units.large, 1098);
  EXPECT_EQ(units.small, 1);
  const Both time = share(Carry::kTime);
  EXPECT_EQ(time.large, 1049);
  EXPECT_EQ(time.small, 5);
}

// A client that waits until the reported reset passes, at any new rate.
RC_GTEST_PROP(ChangedRate, PassesAtTheReportedResetInTime, ()) {
  const Rate from = *any_rate();
  const Rate to = *any_rate();
  Backlog backlog = empty_backlog(tick(0), from.duration);
  const auto used = *rc::gen::inRange<Count>(1, from.burst + 1);
  const auto first =
      decide_backlog(tick(0), backlog, from.pace(), {.capacity = from.burst, .cost = used});
  RC_ASSERT(first.admitted());
  backlog.tat = first.tat;
  const Backlog moved = rebased_in_time(first.reset, to.duration, backlog, from.pace(), to.pace());
  RC_ASSERT(decide_backlog(first.reset, moved, to.pace(), {.capacity = to.burst, .cost = to.burst})
                .admitted());
}

}  // namespace
}  // namespace weir::algorithms
