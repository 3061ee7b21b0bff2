// Cost and accuracy of sharing limits between regions, on fleets small enough for a test.

#include "sim/fleets/fleet.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/fleets/run.h"
#include "tests/effort.h"

namespace weir::sim {
namespace {

// Long enough for stable figures; a sanitizer needs to see each state only once.
constexpr Millis kWarmUp{kSanitized ? 60'000 : 120'000};
constexpr Millis kMeasured{kSanitized ? 60'000 : 180'000};
constexpr Millis kCompared{kSanitized ? 4'000 : 120'000};

Scenario scenario_of(uint32_t regions, uint32_t nodes, const SyncRules& rules = {}) {
  Scenario scenario{.name = "test",
                    .measured = kMeasured,
                    .regions = even_fleet({.regions = regions, .nodes = nodes})};
  scenario.settings.sync = rules;
  scenario.limits = {{.name = "api", .limit = {1000, 1000}}};
  return scenario;
}

Scenario attack(Shape shape, uint32_t regions, const SyncRules& rules = {}) {
  Scenario scenario = scenario_of(regions, regions, rules);
  scenario.measured = Millis(60'000);
  scenario.traffic = {{.limit = "api", .shape = shape, .demand = {2, 2}}};
  return scenario;
}

// `times` limits in every window, in all regions together; measured after a warm-up.
Scenario evenly(double times, uint32_t regions, const SyncRules& rules = {}) {
  Scenario scenario = scenario_of(regions, regions, rules);
  scenario.warm_up = kWarmUp;
  scenario.traffic = {{.limit = "api", .shape = Shape::kSteady, .demand = {times, times}}};
  return scenario;
}

// A few shared keys among many others; some get several limits of requests at once.
Scenario small_traffic(double most, const SyncRules& rules = {}) {
  Scenario scenario = scenario_of(4, 12, rules);
  scenario.warm_up = Millis(60'000);
  scenario.measured = std::min(kMeasured, Millis(120'000));
  scenario.limits = {{.name = "api", .limit = {10, 1000}}};
  scenario.traffic = {{.limit = "api",
                       .keys = 420,
                       .demand = {1, 8},
                       .unit = StreamPlan::Unit::kRequests,
                       .spread = Range<uint32_t>{1, 1}},
                      {.limit = "api",
                       .keys = 130,
                       .demand = {1, 8},
                       .unit = StreamPlan::Unit::kRequests,
                       .spread = Range<uint32_t>{2, 3}},
                      {.limit = "api",
                       .shape = Shape::kOnOff,
                       .keys = 50,
                       .demand = {0.5, most},
                       .spread = Range<uint32_t>{2, 3}}};
  return scenario;
}

double figure(const Results& results, const char* key) {
  return results.figure(key).value();
}

TEST(Fleet, GivesTheSameResultForTheSameSeedAndAnotherForAnother) {
  Scenario scenario = small_traffic(4);
  scenario.measured = kCompared;
  const Results one = run_scenario(scenario);
  const Results two = run_scenario(scenario);
  EXPECT_EQ(one.fingerprint, two.fingerprint);
  EXPECT_EQ(one.events, two.events);
  EXPECT_EQ(one.delays_ms, two.delays_ms);
  EXPECT_GT(figure(one, "denied"), 0);
  scenario.seed = 2;
  EXPECT_NE(run_scenario(scenario).fingerprint, one.fingerprint);
}

TEST(Fleet, KeepsItsBoundUnderTraffic) {
  const Results results = run_scenario(small_traffic(4));
  EXPECT_EQ(results.broken, std::nullopt);
  EXPECT_GT(figure(results, "full_cells"), 0);
  EXPECT_LE(figure(results, "unexcused"), 1.35);
  EXPECT_EQ(figure(results, "disagreements"), 0);
}

TEST(Fleet, RarelyWritesARowTwice) {
  Fleet fleet({.regions = even_fleet({.regions = 3, .nodes = 9})});
  fleet.run_for(Millis(60'000));
  for (int i = 0; i < 20; ++i) fleet.add({.limit = 200, .regions = {0, 1, 2}});
  uint32_t step = 0;
  fleet.run_for(Millis(120'000), [&] {
    if (++step % 20 == 0) fleet.send(step / 20 % 20, step / 400 % 3);
  });
  EXPECT_GT(fleet.load().rows, 0U);
  EXPECT_LE(20 * fleet.admissions().repeated(), fleet.load().rows);
}

TEST(Fleet, AttackersWithUnpublishedCountsGetNoMoreThanTheBound) {
  for (const uint32_t regions : {2U, 10U}) {
    EXPECT_LE(figure(run_scenario(attack(Shape::kHideThenRun, regions)), "worst_cell"), 1.35);
    EXPECT_LE(figure(run_scenario(attack(Shape::kHoldBackThenRun, regions)), "worst_cell"), 1.35);
  }
  const Results floor = run_scenario(attack(Shape::kHideThenRun, 10, floor_rules()));
  EXPECT_GE(figure(floor, "worst_cell"), 5.4);
}

TEST(Fleet, SaturatedWindowsStayNearTheLimit) {
  const Results results = run_scenario(evenly(100, 10));
  EXPECT_EQ(results.broken, std::nullopt);
  EXPECT_LE(figure(results, "mean_cell"), 1.15);
  EXPECT_LE(figure(results, "unexcused"), 1.35);
  EXPECT_GE(figure(run_scenario(evenly(100, 10, floor_rules())), "mean_cell"), 5);
}

TEST(Fleet, ThreeLimitsOfferedEvenlyAreNotAdmitted) {
  EXPECT_LE(figure(run_scenario(evenly(3, 10)), "mean_cell"), 1.15);
  const Results floor = run_scenario(evenly(3, 10, floor_rules()));
  EXPECT_GE(figure(floor, "mean_cell"), 2.99);
  EXPECT_EQ(figure(floor, "rows"), 0);
}

// The first denial in each process may cost a row.
TEST(Fleet, HotKeyOfASingleRegionCostsAtMostOneRowPerWindowAndProcess) {
  for (const uint32_t nodes : {1U, 3U}) {
    Scenario scenario = evenly(3, 1);
    scenario.regions = even_fleet({.regions = 1, .nodes = nodes});
    const double rows = figure(run_scenario(scenario), "rows");
    EXPECT_LE(rows, nodes * 1.01 / 60);
    EXPECT_GE(rows, 0.5 / 60);  // it does publish
  }
}

TEST(Fleet, FloodOfFreshKeysStaysWithinItsBudgetAndAffectsNoOtherKey) {
  constexpr uint32_t kBudget = 250;  // rows per second of each region
  constexpr double kFlood = 30'000;  // requests per second
  Scenario scenario = scenario_of(3, 6, {.rows_per_second = 3 * kBudget});
  scenario.measured = Millis(35'000);
  scenario.settings.capacity = size_t{1} << 16;
  scenario.limits = {{.name = "api", .limit = {100, 100}}, {.name = "address", .limit = {10, 10}}};
  scenario.traffic = {{.limit = "api", .keys = 50, .demand = {1.5, 1.5}},
                      {.limit = "address",
                       .shape = Shape::kFresh,
                       .demand = {kFlood, kFlood},
                       .unit = StreamPlan::Unit::kRequests,
                       .regions = {"r0"},
                       .begins = Millis(10'000),
                       .ends = Millis(25'000)}};
  const Results results = run_scenario(scenario);
  const auto rows = std::find_if(results.series.begin(), results.series.end(),
                                 [](const Series& series) { return series.key == "rows"; });
  double written = 0;
  for (size_t i = 10; i < 25; ++i) written += rows->values[i];
  // The budget saved in a quiet second may be used as well, and other regions write, too.
  EXPECT_LE(written, kBudget * 15 + kBudget + 500);
  EXPECT_GT(figure(results, "bound"), 1.35);
  EXPECT_LE(figure(results, "unexcused"), 1.35);
}

}  // namespace
}  // namespace weir::sim
