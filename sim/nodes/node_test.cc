#include "sim/nodes/node.h"

#include <gtest/gtest.h>

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
