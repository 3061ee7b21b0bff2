#include "sim/nodes/node.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::sim {
namespace {

TEST(ProcessExecutor, CallsBeforeEachUntilTheProcessEnds) {
  Timeline timeline(1);
  int seen = 0;
  int runs = 0;
  ProcessExecutor executor(timeline, [&] { ++seen; });
  executor.post([&] { ++runs; });
  while (timeline.step(timeline.now().mono)) {
  }
  executor.post([&] { ++runs; });
  executor.end();
  EXPECT_FALSE(executor.alive());
  while (timeline.step(timeline.now().mono)) {
  }
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(runs, 2);
}

TEST(ProcessExecutor, RunsTheTasksOfAPausedProcessInOrderWhenItWakes) {
  Timeline timeline(1);
  std::vector<int> runs;
  ProcessExecutor executor(timeline);
  const MonoTime begin = timeline.now().mono;
  executor.pause_until(begin + Millis(100));
  for (int i = 1; i <= 3; ++i) {
    executor.post_at(begin + Millis(10 * i), [&runs, i] { runs.push_back(i); });
  }
  while (timeline.step(begin + Millis(99))) {
  }
  EXPECT_TRUE(runs.empty());
  while (timeline.step(begin + Millis(101))) {
  }
  EXPECT_EQ(runs, (std::vector{1, 2, 3}));
}

TEST(NodeClock, RemembersItsLatestTimeWhenItIsSetBack) {
  Timeline timeline(1);
  NodeClock clock(timeline, Millis(20));
  const Instant before = clock.now();
  clock.set_skew(Millis(-100));
  EXPECT_EQ(before.wall - clock.now().wall, Millis(120));
  EXPECT_EQ(clock.latest(), before.wall);
  EXPECT_EQ(clock.now().mono, before.mono);
}

}  // namespace
}  // namespace weir::sim
