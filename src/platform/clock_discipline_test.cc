#include "platform/clock_discipline.h"

#include <gtest/gtest.h>

namespace weir::platform {
namespace {

constexpr Nanos kStart = std::chrono::hours(5);
constexpr Nanos kWall = std::chrono::hours(400'000);
constexpr Nanos kTick = std::chrono::milliseconds(100);

ClockDiscipline started() {
  ClockDiscipline discipline;
  discipline.start(kStart, kWall);
  return discipline;
}

TEST(ClockDiscipline, SlewsASmallStepWithoutRunningBackwards) {
  for (const Nanos step :
       {Nanos(std::chrono::milliseconds(1000)), Nanos(std::chrono::milliseconds(-1000))}) {
    ClockDiscipline discipline = started();
    Nanos last = kWall;
    int ticks = 0;
    for (; ticks < 1000 && discipline.offset() != kWall - kStart + step; ++ticks) {
      const Nanos steady = kStart + (ticks + 1) * kTick;
      discipline.follow(steady, kWall + (ticks + 1) * kTick + step);
      const Nanos process_time = steady + discipline.offset();
      EXPECT_GT(process_time, last);
      EXPECT_LE(process_time - last, kTick + kTick / ClockDiscipline::kSlewDivisor);
      last = process_time;
    }
    // A second at a twentieth takes twenty seconds.
    EXPECT_EQ(ticks, 200);
    EXPECT_EQ(discipline.steps_adopted(), 0u);
  }
}

TEST(ClockDiscipline, AdoptsALargerStepAtOnceAndCountsIt) {
  for (const Nanos step : {Nanos(std::chrono::milliseconds(1001)), Nanos(std::chrono::hours(-3))}) {
    ClockDiscipline discipline = started();
    discipline.follow(kStart + kTick, kWall + kTick + step);
    EXPECT_EQ(discipline.offset(), kWall - kStart + step);
    EXPECT_EQ(discipline.steps_adopted(), 1u);
  }
}

}  // namespace
}  // namespace weir::platform
