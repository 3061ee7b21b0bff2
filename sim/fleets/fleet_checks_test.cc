// A fleet runs every checker of a world: a clean run passes all of them, and a planted bug is
// found.

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "sim/fleets/run.h"
#include "tests/effort.h"

namespace weir::sim {
namespace {

// Two regions with two nodes each; requests for one and a half limits of a few keys.
Scenario small_scenario() {
  Scenario scenario{
      .name = "checks",
      .warm_up = Millis(5000),
      .measured = kSanitized ? Millis(5000) : Millis(15'000),
      .regions = even_fleet({.regions = 2, .nodes = 4, .to_ledger_last = Millis(40)})};
  scenario.limits = {{.name = "api", .limit = {20, 100}, .duration = Millis(5000)},
                     {.name = "login",
                      .limit = {10, 10},
                      .duration = Millis(5000),
                      .algorithm = Algorithm::kGcra,
                      .burst = 20}};
  scenario.traffic = {{.limit = "api", .keys = 4, .demand = {1.5, 1.5}},
                      {.limit = "login", .keys = 2, .demand = {1.5, 1.5}}};
  return scenario;
}

Scenario with_faults(Scenario scenario) {
  const Millis at = scenario.warm_up;
  scenario.faults = {
      {.what = FaultKind::kOriginEmptied, .at = at + Millis(500), .where = "r0"},
      {.what = FaultKind::kNodeDrained,
       .at = at + Millis(1000),
       .lasts = Millis(2000),
       .where = "r1/0"},
      {.what = FaultKind::kOriginRefuses,
       .at = at + Millis(1500),
       .lasts = Millis(800),
       .where = "r0"},
      {.what = FaultKind::kLedgerSilent, .at = at + Millis(2000), .lasts = Millis(1500)},
      {.what = FaultKind::kNetworkLoses,
       .at = at + Millis(2500),
       .lasts = Millis(1500),
       .amount = 20},
      {.what = FaultKind::kNodeKilled,
       .at = at + Millis(3000),
       .lasts = Millis(500),
       .where = "r0/1"}};
  return scenario;
}

TEST(FleetChecks, PassWithoutFaults) {
  const Results results = run_scenario(small_scenario(), {.checks = CheckOptions{}});
  EXPECT_EQ(results.broken, std::nullopt);
  EXPECT_GT(results.figure("denied").value(), 0);
  EXPECT_GT(results.figure("rows").value(), 0);
}

TEST(FleetChecks, PassWithFaults) {
  const Results results = run_scenario(with_faults(small_scenario()), {.checks = CheckOptions{}});
  EXPECT_EQ(results.broken, std::nullopt);
}

TEST(FleetChecks, ChangeNoDecision) {
  const Scenario scenario = with_faults(small_scenario());
  const Results checked = run_scenario(scenario, {.checks = CheckOptions{}});
  const Results unchecked = run_scenario(scenario);
  EXPECT_EQ(checked.fingerprint, unchecked.fingerprint);
  EXPECT_EQ(checked.events, unchecked.events);
}

struct FleetBug {
  PlantedBug bug = PlantedBug::kNone;
  std::string_view name = {};
  std::string_view found_by = {};
};
void PrintTo(const FleetBug& bug, std::ostream* out) {
  *out << bug.name;
}

class FleetBugTest : public ::testing::TestWithParam<FleetBug> {};

TEST_P(FleetBugTest, IsFoundByACheckerOfWorlds) {
  const Results results =
      run_scenario(small_scenario(), {.checks = CheckOptions{.planted_bug = GetParam().bug}});
  ASSERT_TRUE(results.broken);
  EXPECT_EQ(results.broken->substr(0, results.broken->find(':')), GetParam().found_by);
  EXPECT_FALSE(results.fine());
}

INSTANTIATE_TEST_SUITE_P(
    Fleet, FleetBugTest,
    ::testing::Values(FleetBug{PlantedBug::kOriginAdds, "OriginAdds", "idempotent replay"},
                      FleetBug{PlantedBug::kForeignPublished, "ForeignPublished",
                               "no invented foreign counts"},
                      FleetBug{PlantedBug::kFalseRowAcks, "FalseRowAcks", "durability order"}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace weir::sim
