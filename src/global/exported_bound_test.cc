// The exported bound must always hold: every condition that could break it widens it.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "global/region_sync_fixture_test.h"

namespace weir::global {
namespace {

class ExportedBound : public RegionSyncTest {
 protected:
  static double bound(const TestRegion& place) { return place.limiter->sync_stats().bound; }
};

TEST_F(ExportedBound, IsInfiniteUntilTheFirstFullReadAndThenThatOfTheRule) {
  TestRegion& east = add("east");
  add("west");
  east.ledger->cut();
  pass(Millis(1000));
  EXPECT_TRUE(std::isinf(bound(east)));
  east.ledger->mend();
  pass(Millis(40'000));
  EXPECT_NEAR(bound(east), 1.35, 0.001);
}

TEST_F(ExportedBound, IsOneLimitPerRegionWhileNothingIsImported) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(25'000));
  east.ledger->cut();
  pass(Millis(3000));
  EXPECT_NEAR(bound(east), 2, 0.001);
  EXPECT_NEAR(bound(west), 1.35, 0.001);
  // A silent region may admit anything.
  pass(Millis(6000));
  EXPECT_NEAR(bound(west), 2, 0.001);
  east.ledger->mend();
  pass(Millis(30'000));
  EXPECT_NEAR(bound(east), 1.35, 0.001);
  EXPECT_NEAR(bound(west), 1.35, 0.001);
}

TEST_F(ExportedBound, IsWiderWhileAProcessMayHaveDiedWithUnpublishedCounts) {
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
  // Until the windows end in which the process counted.
  pass(Millis(2 * 60'000 + 25'000));
  EXPECT_NEAR(bound(west), 1.35, 0.001);
  EXPECT_NEAR(bound(again), 1.35, 0.001);
}

TEST_F(ExportedBound, IsWiderWhileThereWasNoSpaceForImportedRows) {
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
}  // namespace weir::global
