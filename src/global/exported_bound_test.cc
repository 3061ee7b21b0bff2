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
  static double bound(const TestRegion& place, const std::string& ns) {
    return place.limiter->sync_stats().bound_of({}, ns);
  }
  // Counts on a key of a namespace, up to its limit of 100.
  void exhaust(TestRegion& place, const std::string& ns, const std::string& key) {
    Request request{.ns = ns, .identifier = key, .limit = 100, .duration = Millis(60'000)};
    for (int i = 0; i < 101; ++i) (void)place.limiter->check(clock_.now(), request);
  }
};

TEST_F(ExportedBound, IsInfiniteUntilTheFirstFullReadAndThenThatOfTheRule) {
  TestRegion& east = add("east");
  add("west");
  east.ledger->cut();
  pass(Millis(1000));
  EXPECT_TRUE(std::isinf(bound(east)));
  east.ledger->restore();
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
  east.ledger->restore();
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

TEST_F(ExportedBound, IsWiderOnlyInTheNamespaceWhoseRowsWait) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(45'000));
  east.ledger->lock_rows_of("stuck");
  exhaust(east, "slow", "stuck");
  exhaust(east, "quick", "other");
  pass(Millis(6000));
  EXPECT_NEAR(bound(west, "slow"), 2, 0.001);
  EXPECT_NEAR(bound(west, "quick"), 1.35, 0.001);
  EXPECT_NEAR(bound(west), 1.35, 0.001);
  EXPECT_NEAR(west.limiter->sync_stats().widest_bound(), 2, 0.001);
  east.ledger->lock_rows_of("");
  pass(Millis(45'000));
  EXPECT_TRUE(west.limiter->sync_stats().wider_bounds.empty());
}

// More namespaces than a region lists: the bound of all others is as wide.
TEST_F(ExportedBound, IsWiderEverywhereIfTheRowsOfManyNamespacesWait) {
  TestRegion& east = add("east");
  TestRegion& west = add("west");
  pass(Millis(45'000));
  east.ledger->lock_rows_of("stuck");
  for (size_t i = 0; i <= kMaxReportedNamespaces; ++i) {
    exhaust(east, "slow-" + std::to_string(i), "stuck");
  }
  pass(Millis(6000));
  EXPECT_NEAR(bound(west), 2, 0.001);
  for (size_t i = 0; i <= kMaxReportedNamespaces; ++i) {
    EXPECT_NEAR(bound(west, "slow-" + std::to_string(i)), 2, 0.001) << i;
  }
  EXPECT_LE(west.limiter->sync_stats().wider_bounds.size(), kMaxReportedNamespaces);
}

// Two regions list different namespaces; each is as wide as the sum of both says.
TEST_F(ExportedBound, AddsWhatRegionsReportOfANamespace) {
  TestRegion& east = add("east");
  TestRegion& south = add("south");
  TestRegion& west = add("west");
  pass(Millis(45'000));
  const double usual = bound(west);
  for (TestRegion* each : {&east, &south}) each->ledger->lock_rows_of("stuck");
  exhaust(east, "both", "stuck");
  exhaust(south, "both", "stuck");
  exhaust(south, "one", "stuck");
  pass(Millis(6000));
  EXPECT_NEAR(bound(west, "both"), 3, 0.001);
  EXPECT_NEAR(bound(west, "one"), 2.225, 0.001);
  EXPECT_NEAR(bound(west), usual, 0.001);
}

}  // namespace
}  // namespace weir::global
