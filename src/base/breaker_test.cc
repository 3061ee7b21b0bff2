#include "base/breaker.h"

#include <gtest/gtest.h>

namespace weir::base {
namespace {

MonoTime at(int64_t millis) {
  return MonoTime(Nanos(Millis(100'000 + millis)));
}

TEST(Breaker, OpensAtHalfOfAtLeastTwentyCalls) {
  Breaker breaker;
  for (int i = 0; i < 10; ++i) breaker.note(at(i), true);
  for (int i = 0; i < 9; ++i) breaker.note(at(i), false);
  EXPECT_TRUE(breaker.closed());  // nineteen calls
  breaker.note(at(10), false);
  EXPECT_FALSE(breaker.closed());
}

TEST(Breaker, StaysClosedHoweverManyFailAmongManyMore) {
  Breaker breaker;
  for (int i = 0; i < 10'000; ++i) {
    breaker.note(at(i), true);
    breaker.note(at(i), true);
    breaker.note(at(i), false);
  }
  EXPECT_TRUE(breaker.closed());
}

TEST(Breaker, ForgetsWhatIsOlderThanItsWindow) {
  Breaker breaker;
  for (int i = 0; i < 19; ++i) breaker.note(at(0), false);
  breaker.note(at(5000), false);
  EXPECT_TRUE(breaker.closed());
}

TEST(Breaker, IsProbedOnceInAPauseAndClosedByAProbe) {
  Breaker breaker;
  EXPECT_FALSE(breaker.probe_due(at(0)));
  for (int i = 0; i < 20; ++i) breaker.note(at(0), false);
  EXPECT_FALSE(breaker.probe_due(at(999)));
  EXPECT_TRUE(breaker.probe_due(at(1000)));
  EXPECT_FALSE(breaker.probe_due(at(1001)));
  breaker.note(at(1002), true);
  EXPECT_FALSE(breaker.closed());
  breaker.close();
  EXPECT_TRUE(breaker.closed());
  breaker.note(at(1003), false);
  EXPECT_TRUE(breaker.closed());
}

TEST(Breaker, IsProbedEverMoreSeldomWhereAsked) {
  Breaker breaker({.longest_pause = std::chrono::seconds(4)});
  for (int i = 0; i < 20; ++i) breaker.note(at(0), false);
  int64_t due = 1000;
  for (const int64_t pause : {1000, 2000, 4000, 4000}) {
    EXPECT_FALSE(breaker.probe_due(at(due - 1)));
    EXPECT_TRUE(breaker.probe_due(at(due)));
    due += pause;
  }
  breaker.close();
  for (int i = 0; i < 20; ++i) breaker.note(at(due), false);
  EXPECT_TRUE(breaker.probe_due(at(due + 1000)));
}

}  // namespace
}  // namespace weir::base
