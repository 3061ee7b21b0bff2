#include "sim/scenario/scenario_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/scenario/figures.h"
#include "sim/scenario/scenario_texts_test.h"
#include "sim/scenario/scenario_words.h"

namespace weir::sim {
namespace {

using testing::ElementsAre;

Scenario read(std::string_view text, const std::vector<ScenarioChange>& changes = {}) {
  auto result = read_scenario(text, "scenarios/some-name.yaml", changes);
  EXPECT_TRUE(result.ok()) << result.error().detail;
  return result.ok() ? std::move(result.value()) : Scenario{};
}

TEST(ScenarioFile, HasDefaults) {
  const Scenario scenario = read(kSmall);
  EXPECT_EQ(scenario.name, "some-name");
  EXPECT_EQ(scenario.about, "One key at its limit.");
  EXPECT_EQ(scenario.seed, 1u);
  EXPECT_EQ(scenario.warm_up, Millis(0));
  EXPECT_EQ(scenario.measured, Millis(60'000));
  EXPECT_EQ(scenario.calm, Millis(5000));
  ASSERT_EQ(scenario.regions.size(), 2u);
  EXPECT_EQ(scenario.regions[0].name, "r0");
  EXPECT_EQ(scenario.regions[1].name, "r1");
  EXPECT_EQ(scenario.regions[1].nodes, 1u);
  EXPECT_EQ(scenario.regions[1].to_origin, (Range<Millis>{Millis(1), Millis(1)}));
  EXPECT_EQ(scenario.regions[1].to_ledger, (Range<Millis>{Millis(20), Millis(20)}));
  EXPECT_EQ(scenario.settings.sync, SyncRules{});
  EXPECT_TRUE(scenario.settings.ledger);
  ASSERT_EQ(scenario.traffic.size(), 1u);
  EXPECT_EQ(scenario.traffic[0].keys, 1u);
  EXPECT_EQ(scenario.traffic[0].spread, std::nullopt);
  EXPECT_EQ(scenario.traffic[0].ends, std::nullopt);
  EXPECT_TRUE(scenario.faults.empty() && scenario.random_faults.empty() && scenario.expect.empty());
}

TEST(ScenarioFile, ReadsTimesRegionsAndClocks) {
  const Scenario scenario = read(kFull);
  EXPECT_EQ(scenario.seed, 7u);
  EXPECT_EQ(scenario.warm_up, Millis(60'000));
  EXPECT_EQ(scenario.measured, Millis(180'000));
  EXPECT_EQ(scenario.calm, Millis(2500));
  ASSERT_EQ(scenario.regions.size(), 2u);
  const RegionPlan& eu = scenario.regions[0];
  EXPECT_EQ(eu.name, "eu");
  EXPECT_EQ(eu.nodes, 3u);
  EXPECT_EQ(eu.to_origin, (Range<Millis>{Millis(2), Millis(2)}));
  EXPECT_EQ(eu.to_ledger, (Range<Millis>{Millis(10), Millis(30)}));
  const RegionPlan& us = scenario.regions[1];
  EXPECT_EQ(us.nodes, 1u);
  EXPECT_EQ(us.to_origin, (Range<Millis>{Millis(1), Millis(4)}));
  EXPECT_EQ(us.to_ledger, (Range<Millis>{Millis(40), Millis(40)}));
  ASSERT_EQ(scenario.clocks.size(), 4u);
  EXPECT_EQ(scenario.clocks[0].kind, ClockShape::Kind::kSteady);
  EXPECT_EQ(scenario.clocks[0].where, "us");
  EXPECT_EQ(scenario.clocks[0].by, Millis(-20));
  EXPECT_EQ(scenario.clocks[1].kind, ClockShape::Kind::kDrifting);
  EXPECT_EQ(scenario.clocks[1].where, "eu/2");
  EXPECT_EQ(scenario.clocks[1].parts_per_million, -200);
  EXPECT_EQ(scenario.clocks[2].kind, ClockShape::Kind::kStepping);
  EXPECT_EQ(scenario.clocks[2].by, Millis(150));
  EXPECT_EQ(scenario.clocks[2].every, Millis(10'000));
  EXPECT_EQ(scenario.clocks[3].kind, ClockShape::Kind::kSawtooth);
  EXPECT_EQ(scenario.clocks[3].every, Millis(20'000));
}

TEST(ScenarioFile, ReadsSettings) {
  const FleetSettings settings = read(kFull).settings;
  SyncRules rules = floor_rules();
  rules.unpublished_permille = 125;
  rules.slack_permille = 50;
  rules.lease = Millis(30'000);
  rules.import_every = Millis(1000);
  EXPECT_EQ(settings.sync, rules);
  EXPECT_FALSE(settings.ledger);
  EXPECT_EQ(settings.on_origin_loss, OnOriginLoss::kShare);
  EXPECT_EQ(settings.read_deadline, Millis(100));
  EXPECT_EQ(settings.max_freshness, Millis(1000));
  EXPECT_EQ(settings.replay_within, Millis(0));
  EXPECT_EQ(settings.capacity, 64u);
}

TEST(ScenarioFile, ReadsLimitsAndTraffic) {
  const Scenario scenario = read(kFull);
  ASSERT_EQ(scenario.limits.size(), 2u);
  EXPECT_EQ(scenario.limits[0].limit, (Range<Count>{10, 1000}));
  EXPECT_EQ(scenario.limits[0].algorithm, Algorithm::kSlidingWindow);
  EXPECT_EQ(scenario.limits[0].burst, std::nullopt);
  EXPECT_EQ(scenario.limits[1].duration, Millis(3'600'000));
  EXPECT_EQ(scenario.limits[1].algorithm, Algorithm::kGcra);
  EXPECT_EQ(scenario.limits[1].burst, Count{2});
  ASSERT_EQ(scenario.traffic.size(), 3u);
  const StreamPlan& api = scenario.traffic[0];
  EXPECT_EQ(api.limit, "api");
  EXPECT_EQ(api.shape, Shape::kOnOff);
  EXPECT_EQ(api.keys, 24'000u);
  EXPECT_EQ(api.unit, StreamPlan::Unit::kLimits);
  EXPECT_EQ(api.demand, (Range<double>{0.5, 1.2}));
  EXPECT_EQ(api.spread, (Range<uint32_t>{1, 2}));
  EXPECT_EQ(api.on, Millis(5000));
  EXPECT_EQ(api.off, Millis(20'000));
  EXPECT_EQ(api.begins, Millis(10'000));
  EXPECT_EQ(api.ends, Millis(240'000));
  const StreamPlan& login = scenario.traffic[1];
  EXPECT_EQ(login.shape, Shape::kLockStep);
  EXPECT_EQ(login.clients, 8u);
  EXPECT_EQ(login.every, Millis(100));
  EXPECT_EQ(login.cost, (Range<Count>{0, 3}));
  EXPECT_THAT(login.regions, ElementsAre("us"));
  EXPECT_EQ(scenario.traffic[2].unit, StreamPlan::Unit::kRequests);
  EXPECT_EQ(scenario.traffic[2].demand, (Range<double>{600, 600}));
}

TEST(ScenarioFile, ReadsFaultsAndExpectations) {
  const Scenario scenario = read(kFull);
  ASSERT_EQ(scenario.faults.size(), 3u);
  EXPECT_EQ(scenario.faults[0].what, FaultKind::kOriginSlow);
  EXPECT_EQ(scenario.faults[0].at, Millis(70'000));
  EXPECT_EQ(scenario.faults[0].lasts, Millis(10'000));
  EXPECT_EQ(scenario.faults[0].where, "eu");
  EXPECT_EQ(scenario.faults[0].amount, 250);
  EXPECT_EQ(scenario.faults[1].where, "eu/2");
  EXPECT_EQ(scenario.faults[1].amount, -11'000);
  EXPECT_EQ(scenario.faults[2].lasts, Millis(0));
  ASSERT_EQ(scenario.random_faults.size(), 2u);
  EXPECT_EQ(scenario.random_faults[0].what, FaultKind::kLedgerDeadlocks);
  EXPECT_EQ(scenario.random_faults[0].every, Millis(20'000));
  EXPECT_EQ(scenario.random_faults[0].lasts, (Range<Millis>{Millis(1000), Millis(5000)}));
  EXPECT_EQ(scenario.random_faults[0].amount, (Range<double>{10, 50}));
  EXPECT_EQ(scenario.random_faults[1].lasts, (Range<Millis>{Millis(0), Millis(0)}));
  using Relation = Expectation::Relation;
  ASSERT_EQ(scenario.expect.size(), 4u);
  EXPECT_EQ(scenario.expect[0].figure, "worst_cell");
  EXPECT_EQ(scenario.expect[0].relation, Relation::kAtMost);
  EXPECT_EQ(scenario.expect[0].value, 1.35);
  EXPECT_EQ(scenario.expect[1].relation, Relation::kAtLeast);
  EXPECT_EQ(scenario.expect[1].value, 2);
  EXPECT_EQ(scenario.expect[2].value, 900);
  EXPECT_EQ(scenario.expect[3].relation, Relation::kEquals);
}

TEST(ScenarioFile, DealsNodesToItsRegionsInTurn) {
  const Scenario scenario = read(kSmall, {{.path = "world", .value = "{regions: 3, nodes: 8}"}});
  ASSERT_EQ(scenario.regions.size(), 3u);
  EXPECT_EQ(scenario.regions[0].nodes, 3u);
  EXPECT_EQ(scenario.regions[1].nodes, 3u);
  EXPECT_EQ(scenario.regions[2].nodes, 2u);
}

TEST(ScenarioFile, PutsRegionsAtEvenDistancesFromTheLedger) {
  const Scenario scenario = read(
      kSmall, {{.path = "world", .value = "{regions: 4, to_ledger: {first: 80ms, last: 20ms}}"}});
  std::vector<Millis> delays;
  for (const RegionPlan& region : scenario.regions) delays.push_back(region.to_ledger.to);
  EXPECT_THAT(delays, ElementsAre(Millis(80), Millis(60), Millis(40), Millis(20)));
}

TEST(ScenarioChange, ReplacesValuesOfTheFile) {
  const Scenario scenario =
      read(kSmall, {{.path = "settings.policy", .value = "floor"},
                    {.path = "limits.0.limit", .value = "50"},
                    {.path = "traffic[0].demand", .value = "{from: 1, to: 2}"},
                    {.path = "faults.0.what", .value = "origin_emptied"},
                    {.path = "faults.0.at", .value = "5s"},
                    {.path = "seed", .value = "9"}});
  EXPECT_EQ(scenario.settings.sync, floor_rules());
  EXPECT_EQ(scenario.limits[0].limit, (Range<Count>{50, 50}));
  EXPECT_EQ(scenario.traffic[0].demand, (Range<double>{1, 2}));
  ASSERT_EQ(scenario.faults.size(), 1u);
  EXPECT_EQ(scenario.faults[0].at, Millis(5000));
  EXPECT_EQ(scenario.seed, 9u);
}

TEST(Words, AreUnique) {
  std::set<std::string_view> words;
  for (const FaultWords& fault : fault_words()) {
    EXPECT_TRUE(words.insert(fault.word).second) << fault.word;
    EXPECT_EQ(to_string(fault.kind), fault.word);
  }
  words.clear();
  for (const FigureName& figure : known_figures()) {
    EXPECT_TRUE(words.insert(figure.key).second) << figure.key;
    EXPECT_EQ(find_figure(figure.key), &figure);
  }
  EXPECT_EQ(find_figure("none"), nullptr);
  EXPECT_EQ(to_string(Shape::kEdgeBurst), "edge_burst");
  EXPECT_EQ(to_string(FaultKind::kLedgerFeedGap), "ledger_feed_gap");
}

}  // namespace
}  // namespace weir::sim
