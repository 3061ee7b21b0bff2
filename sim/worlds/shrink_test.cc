// A world that breaks becomes smaller, breaks in the same way, and does so again from its file.

#include "sim/worlds/shrink.h"

#include <gtest/gtest.h>

#include <string>

#include "base/mutation.h"
#include "sim/worlds/find_violation_test.h"
#include "sim/worlds/swarm.h"
#include "sim/worlds/world_file.h"

namespace weir::sim {
namespace {

constexpr int kMostRuns = 60;

// The first of these worlds that breaks.
Shrunk first_broken(WorldOptions options) {
  for (options.seed = 1; options.seed <= 100; ++options.seed) {
    RunReport report = World(options).run();
    if (report.broken) return {.options = options, .report = std::move(report)};
  }
  return {};
}

void expect_shrinks(const WorldOptions& options, std::string_view checker) {
  const Shrunk before = first_broken(options);
  ASSERT_TRUE(before.report.broken);
  ASSERT_EQ(checker_of(before.report), checker);
  const Shrunk after = shrink(before.options, before.report, kMostRuns);
  EXPECT_LE(after.runs, kMostRuns);
  EXPECT_EQ(checker_of(after.report), checker);
  EXPECT_LT(after.options.fault_time, before.options.fault_time);
  EXPECT_LE(after.report.regions, before.report.regions);
  EXPECT_LE(after.report.nodes, before.report.nodes);
  EXPECT_LT(after.report.nodes * after.report.regions * after.options.tuples,
            before.report.nodes * before.report.regions * before.options.tuples);

  auto again = read_world(write_world(after.options, *after.report.broken));
  ASSERT_TRUE(again.ok()) << again.error().detail;
  WorldOptions replayed = *again;
  replayed.planted_bug = options.planted_bug;  // no file contains it
  const RunReport report = World(replayed).run();
  ASSERT_TRUE(report.broken);
  EXPECT_EQ(*report.broken, *after.report.broken);
  EXPECT_EQ(report.fingerprint, after.report.fingerprint);
}

TEST(Shrink, KeepsWhatABugAroundTheEngineNeeds) {
  expect_shrinks({.regions = 1, .planted_bug = PlantedBug::kReplaysTooSeldom}, "acked in time");
}

TEST(Shrink, KeepsWhatABugInTheEngineNeeds) {
  base::planted = base::Mutation::kForeignPublished;
  expect_shrinks({.regions = 3, .faults = FaultMode::kNone}, "no invented foreign counts");
  base::planted = base::Mutation::kNone;
}

TEST(Shrink, DisablesFaultsThatTheViolationDoesNotNeed) {
  const Shrunk before = first_broken({.regions = 1, .planted_bug = PlantedBug::kDrainCutShort});
  ASSERT_TRUE(before.report.broken);
  const Shrunk after = shrink(before.options, before.report, kMostRuns);
  EXPECT_EQ(after.options.disabled_faults.count(WorldFault::kDrains), 0u);
  EXPECT_GT(after.options.disabled_faults.size(), 0u);
  EXPECT_EQ(checker_of(after.report), checker_of(before.report));
}

}  // namespace
}  // namespace weir::sim
