#include "base/breaker.h"

#include <gtest/gtest.h>

namespace weir::base {
namespace {

MonoTime at(int64_t millis) {
  return MonoTime(Nanos(Millis(100'000 + millis)));
}

TEST(Breaker, OpensAtHalfOfAtLeastTwentyCalls) {
  Breaker breaker;
  for (int i = 0; i < 10; ++i) breaker.record(at(i), true);
  for (int i = 0; i < 9; ++i) breaker.record(at(i), false);
  EXPECT_TRUE(breaker.closed());  // nineteen calls
  breaker.record(at(10), false);
  EXPECT_FALSE(breaker.closed());
}

TEST(Breaker, StaysClosedWhenAThirdOfManyCallsFails) {
  Breaker breaker;
  for (int i = 0; i < 10'000; ++i) {
    breaker.record(at(i), true);
    breaker.record(at(i), true);
    breaker.record(at(i), false);
  }
  EXPECT_TRUE(breaker.closed());
}

TEST(Breaker, IgnoresCallsOlderThanItsWindow) {
  const auto is_closed_by = [](int64_t last) {
    Breaker breaker;
    for (int i = 0; i < 19; ++i) breaker.record(at(0), false);
    breaker.record(at(last), false);
    return breaker.closed();
  };
  EXPECT_FALSE(is_closed_by(4999));
  // Also where the slice of the old calls is not used again.
  for (const int64_t last : {5000, 6000, 7500, 9000, 14'000})
    EXPECT_TRUE(is_closed_by(last)) << last;
}

TEST(Breaker, AllowsOneProbePerPauseAndIsClosedByOne) {
  Breaker breaker;
  EXPECT_FALSE(breaker.probe_due(at(0)));
  for (int i = 0; i < 20; ++i) breaker.record(at(0), false);
  EXPECT_FALSE(breaker.probe_due(at(999)));
  EXPECT_TRUE(breaker.probe_due(at(1000)));
  EXPECT_FALSE(breaker.probe_due(at(1001)));
  breaker.record(at(1002), true);
  EXPECT_FALSE(breaker.closed());
  breaker.close();
  EXPECT_TRUE(breaker.closed());
  breaker.record(at(1003), false);
  EXPECT_TRUE(breaker.closed());
}

TEST(Breaker, DoublesThePauseBetweenProbesUpToItsMaximum) {
  Breaker breaker({.longest_pause = std::chrono::seconds(4)});
  for (int i = 0; i < 20; ++i) breaker.record(at(0), false);
  int64_t due = 1000;
  for (const int64_t pause : {1000, 2000, 4000, 4000, 4000}) {
    EXPECT_FALSE(breaker.probe_due(at(due - 1)));
    EXPECT_TRUE(breaker.probe_due(at(due)));
    due += pause;
  }
  breaker.close();
  for (int i = 0; i < 20; ++i) breaker.record(at(due), false);
  EXPECT_TRUE(breaker.probe_due(at(due + 1000)));
}

}  // namespace
}  // namespace weir::base
