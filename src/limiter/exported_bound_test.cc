// The bound that a process exports is for everyone to rely on: what makes it untrue widens it.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "limiter/sharing_fixture_test.h"

namespace weir::limiter {
namespace {

class ExportedBound : public RegionSyncTest {
 protected:
  static double bound(const TestRegion& place) { return place.limiter->sync_stats().bound; }
};

TEST_F(ExportedBound, IsInfiniteUntilEverythingWasReadAndThenWhatTheRuleSays) {
  TestRegion& east = add("east");
  add("west");
  east.ledger->cut();
  pass(Millis(1000));
  EXPECT_TRUE(std::isinf(bound(east)));
  east.ledger->restore();
  pass(Millis(40'000));
  EXPECT_NEAR(bound(east), 1.35, 0.001);
}

TEST_F(ExportedBound, IsAWholeLimitForEachRegionWhileNothingIsReceived) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(25'000));
  east.ledger->cut();
  pass(Millis(3000));
  EXPECT_NEAR(bound(east), 2, 0.001);
  EXPECT_NEAR(bound(west), 1.35, 0.001);
  // Of one that is silent nobody knows what it admits.
  pass(Millis(6000));
  EXPECT_NEAR(bound(west), 2, 0.001);
  east.ledger->restore();
  pass(Millis(30'000));
  EXPECT_NEAR(bound(east), 1.35, 0.001);
  EXPECT_NEAR(bound(west), 1.35, 0.001);
}

TEST_F(ExportedBound, IsWiderWhileAProcessMayHaveDiedWithWhatItHeldBack) {
  duration_ = Millis(60'000);
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(25'000));
  ask_times(east, 60);
  pass(Millis(1000));
  ASSERT_GT(row("east"), 0U);
  east.limiter.reset();
  TestRegion& again = add("east");
  pass(Millis(5000));
  EXPECT_NEAR(bound(west), 2, 0.001);
  // Until the windows are over in which it counted.
  pass(Millis(2 * 60'000 + 25'000));
  EXPECT_NEAR(bound(west), 1.35, 0.001);
  EXPECT_NEAR(bound(again), 1.35, 0.001);
}

TEST_F(ExportedBound, IsWiderWhileThereWasNoRoomForNews) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(25'000));
  limit_ = 1;
  for (int i = 0; i < 1500; ++i) {
    identifier_ = "key-" + std::to_string(i);
    ask(east);
    if (i % 20 == 0) pass(Millis(50));
  }
  pass(Millis(5000));
  ASSERT_GT(west.limiter->sync_stats().no_room, 0U);
  EXPECT_NEAR(bound(west), 2, 0.001);
}

}  // namespace
}  // namespace weir::limiter
