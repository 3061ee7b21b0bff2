#include "base/countdown.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace weir::base {
namespace {

TEST(Countdown, EndsWithItsLastPart) {
  Countdown countdown;
  countdown.set(2);
  EXPECT_FALSE(countdown.end_part());
  EXPECT_FALSE(countdown.has_ended());
  EXPECT_TRUE(countdown.end_part());
  EXPECT_TRUE(countdown.has_ended());
}

TEST(Countdown, ShowsTheLastThreadWhatTheOthersWrote) {
  for (int round = 0; round < 200; ++round) {
    Countdown countdown(3);
    std::array<int, 3> written{};
    int sum = 0;
    const auto run = [&](size_t part) {
      written[part] = 1;
      if (countdown.end_part()) sum = written[0] + written[1] + written[2];
    };
    {
      const std::jthread first(run, size_t{0});
      const std::jthread second(run, size_t{1});
      run(2);
    }
    EXPECT_EQ(sum, 3);
  }
}

}  // namespace
}  // namespace weir::base
