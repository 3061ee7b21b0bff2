// What docs/performance.md says of sharing between regions, on fleets small enough for a test.

#include <gtest/gtest.h>

#include "sim/fleet/attacks.h"
#include "sim/fleet/traffic.h"

namespace weir::sim {
namespace {

AttackOptions attack_on(uint32_t regions, const SharingRules& rules = {}) {
  AttackOptions options;
  options.fleet.regions = options.fleet.processes = regions;
  options.fleet.rules = rules;
  return options;
}

TrafficOptions small_traffic(Mood mood, const SharingRules& rules = {}) {
  TrafficOptions options{.mood = mood, .keys = 600, .shared_permille = 300, .hot_permille = 150};
  options.fleet.regions = 4;
  options.fleet.processes = 12;
  options.fleet.rules = rules;
  options.warm_up = Millis(60'000);
  options.windows = 2;
  return options;
}

TEST(Fleet, TellsTheSameStoryForTheSameSeed) {
  const TrafficReport one = run_traffic(small_traffic(Mood::kBurst));
  const TrafficReport two = run_traffic(small_traffic(Mood::kBurst));
  EXPECT_EQ(one.admitted, two.admitted);
  EXPECT_EQ(one.refused, two.refused);
  EXPECT_EQ(one.load.rows, two.load.rows);
  EXPECT_EQ(one.load.rows_read, two.load.rows_read);
  EXPECT_EQ(one.delays.age, two.delays.age);
  EXPECT_GT(one.refused, 0U);
}

TEST(Fleet, KeepsItsBoundUnderTraffic) {
  const TrafficReport report = run_traffic(small_traffic(Mood::kBurst));
  EXPECT_GT(report.full_cells, 0U);
  EXPECT_LE(report.worst_unexcused, 1.35);
  EXPECT_LE(quantile(report.delays.travel, 1), static_cast<float>(report.longest_delay.count()));
}

TEST(Fleet, HardlyWritesARowTwice) {
  const TrafficReport report = run_traffic(small_traffic(Mood::kNormal));
  EXPECT_LE(20 * report.repeated, report.load.rows);
}

TEST(Fleet, WhoHidesAndThenRunsGetsNoMoreThanTheBound) {
  for (const uint32_t regions : {2U, 10U}) {
    EXPECT_LE(hide_then_run(attack_on(regions), Hiding::kUnseen).worst, 1.35);
    EXPECT_LE(hide_then_run(attack_on(regions), Hiding::kPresent).worst, 1.35);
  }
  EXPECT_GE(hide_then_run(attack_on(10, floor_rules()), Hiding::kUnseen).worst, 5.4);
}

TEST(Fleet, SaturatedWindowsStayNearTheLimit) {
  const AttackReport report = ask_evenly(attack_on(10), 10, 3);
  EXPECT_LE(report.mean, 1.15);
  EXPECT_LE(report.unexcused, 1.35);
  EXPECT_GE(ask_evenly(attack_on(10, floor_rules()), 10, 3).mean, 5);
}

TEST(Fleet, ThreeLimitsOfferedEvenlyAreNotAdmitted) {
  EXPECT_LE(ask_evenly(attack_on(10), 0.3, 3).mean, 1.15);
  const AttackReport floor = ask_evenly(attack_on(10, floor_rules()), 0.3, 3);
  EXPECT_GE(floor.mean, 2.99);
  EXPECT_EQ(floor.rows_per_window, 0);
}

TEST(Fleet, AHotKeyOfALoneRegionCostsAboutOneRowAWindow) {
  for (const uint32_t processes : {1U, 3U}) {
    AttackOptions options = attack_on(1);
    options.fleet.processes = processes;
    EXPECT_LE(ask_evenly(options, 3, 5).rows_per_window, 2);
  }
}

TEST(Fleet, AFloodOfFreshKeysStaysWithinItsBudgetAndHurtsNobodyElse) {
  FloodOptions options{.fresh_per_second = 3000,
                       .before = Millis(10'000),
                       .lasts = Millis(15'000),
                       .after = Millis(10'000)};
  options.fleet.capacity = size_t{1} << 16;
  const FloodReport report = run_flood(options);
  double widest = 0;
  uint64_t rows = 0;
  for (size_t i = 10; i < 25; ++i) rows += report.seconds[i].rows;
  for (const FloodSecond& second : report.seconds) widest = std::max(widest, second.bound);
  // What was saved up in a quiet second may be used as well.
  EXPECT_LE(rows, 500U * 15 + 500);
  EXPECT_GT(widest, 1.35);
  EXPECT_LE(report.unexcused, 1.35);
}

}  // namespace
}  // namespace weir::sim
