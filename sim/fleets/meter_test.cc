// Rates are those of the measured time, whatever happens after it.

#include "sim/fleets/meter.h"

#include <gtest/gtest.h>

#include <array>

#include "sim/fleets/run.h"

namespace weir::sim {
namespace {

Scenario saturated(Millis calm) {
  Scenario scenario{.name = "rates",
                    .warm_up = Millis(5000),
                    .measured = Millis(20'000),
                    .calm = calm,
                    .regions = even_fleet({.regions = 2, .nodes = 4})};
  scenario.limits = {{.name = "api", .limit = {100, 100}, .duration = Millis(5000)}};
  scenario.traffic = {{.limit = "api", .keys = 10, .demand = {1.5, 1.5}}};
  return scenario;
}

constexpr std::array kRates{"offered_per_second",
                            "denied",
                            "degraded",
                            "false_denials",
                            "rows",
                            "batches",
                            "rows_read",
                            "origin_commands",
                            "bridge_commands",
                            "bridge_updates",
                            "message_bytes"};

TEST(Meter, RatesDoNotDependOnTheTimeAfterTheMeasuredOne) {
  const Results brief = run_scenario(saturated(Millis(1000)));
  const Results longer = run_scenario(saturated(Millis(60'000)));
  EXPECT_EQ(brief.measured_seconds, 20);
  EXPECT_EQ(longer.measured_seconds, 20);
  for (const char* const rate : kRates) {
    EXPECT_EQ(brief.figure(rate), longer.figure(rate)) << rate;
  }
  EXPECT_GT(brief.figure("bridge_commands").value(), 0);
}

TEST(Meter, CountsOnlyWhatHappensBetweenBothEnds) {
  Fleet fleet({.regions = even_fleet({.regions = 1, .nodes = 1})});
  fleet.add({.limit = 1000, .regions = {0}});
  const auto send = [&](int requests) {
    for (int i = 0; i < requests; ++i) fleet.send(0, 0);
    fleet.run_for(Millis(1000));
  };
  fleet.run_for(Millis(1000));
  send(100);  // warm-up
  fleet.begin_measuring();
  Meter meter(fleet, {});
  send(30);
  send(10);
  meter.end_measuring();
  send(500);  // calm
  Results results;
  meter.fill(results);
  EXPECT_EQ(results.measured_seconds, 2);
  EXPECT_EQ(results.figure("offered_per_second"), 20);
}

}  // namespace
}  // namespace weir::sim
