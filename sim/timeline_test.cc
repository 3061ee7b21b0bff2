#include "sim/timeline.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::sim {
namespace {

TEST(Timeline, RunsEventsInTheOrderOfTheirTimes) {
  Timeline timeline(1);
  const Instant start = timeline.now();
  std::vector<int> order;
  timeline.post_in(Millis(20), [&] { order.push_back(2); });
  timeline.post_in(Millis(10), [&] {
    order.push_back(1);
    timeline.post_in(Millis(5), [&] { order.push_back(15); });
  });
  while (timeline.step(start.mono + Millis(100))) {
  }
  EXPECT_EQ(order, (std::vector<int>{1, 15, 2}));
  EXPECT_EQ(timeline.now().wall - start.wall, Millis(20));
  EXPECT_EQ(timeline.now().mono - start.mono, Millis(20));
}

TEST(Timeline, KeepsEventsAfterTheEnd) {
  Timeline timeline(1);
  bool ran = false;
  timeline.post_in(Millis(20), [&] { ran = true; });
  EXPECT_FALSE(timeline.step(timeline.now().mono + Millis(19)));
  EXPECT_TRUE(timeline.step(timeline.now().mono + Millis(20)));
  EXPECT_TRUE(ran);
}

TEST(Timeline, BreaksTiesByItsSeed) {
  const auto order_of = [](uint64_t seed) {
    Timeline timeline(seed);
    std::vector<int> order;
    for (int i = 0; i < 10; ++i) timeline.post([&order, i] { order.push_back(i); });
    while (timeline.step(timeline.now().mono)) {
    }
    return order;
  };
  EXPECT_EQ(order_of(1), order_of(1));
  EXPECT_NE(order_of(1), order_of(2));
}

}  // namespace
}  // namespace weir::sim
