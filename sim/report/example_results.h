// Synthetic results for the tests in this directory.

#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/random.h"
#include "sim/scenario/results.h"

namespace weir::sim {

struct ExampleSize {
  size_t regions = 3;
  size_t seconds = 240;
  double worse = 1;  // cost, relative to the baseline
};

inline double chance(Random& random) {
  return static_cast<double>(random.between(0, 1'000'000)) / 1e6;
}

inline Results example_results(ExampleSize size = {}) {
  Random random(7);
  const auto seconds = static_cast<double>(size.seconds);
  Results r;
  r.scenario = "origin_outage";
  r.about =
      "A thousand keys have a demand slightly above their limits in every region. The origin of "
      "one "
      "region refuses commands for half a minute, and later the ledger is slow. No window may "
      "exceed "
      "its limit by more than the requests in flight.";
  r.seed = 42;
  r.fingerprint = 0x0123456789abcdef;
  r.events = 1'234'567;
  r.simulated_seconds = seconds + 15;
  r.measured_seconds = seconds;
  r.took_seconds = 1.9;
  const char* const names[] = {"eu-west", "us-east", "ap-south"};
  for (size_t i = 0; i < size.regions; ++i) {
    r.regions.push_back(i < 3 ? names[i] : "region-" + std::to_string(i));
  }
  r.nodes = static_cast<uint32_t>(4 * size.regions);
  r.keys = 1000;
  r.figures = {
      {"offered_per_second", "requests per second", "/s", 12'345.6, false},
      {"denied", "denied, of all requests", "%", 18.42, true},
      {"degraded", "decided on incomplete information", "%", 2.31 * size.worse, true},
      {"mean_cell", "mean of windows with a demand of at least the limit, in limits", "", 1.0042,
       true},
      {"worst_cell", "most admitted in one window, in limits", "", 1.0 + 0.124 * size.worse, true},
      {"worst_window", "most admitted in any interval of one window length, in limits", "",
       1.0 + 0.18 * size.worse, true},
      {"unexcused", "worst window without admissions too recent to be known, in limits", "", 0,
       true},
      {"bound", "bound that the nodes guarantee, in limits", "", 1.35, true},
      {"false_denials", "denied below the limit", "%", 0.013, true},
      {"origin_commands", "commands to the origins per second", "/s", 2'204, true},
      {"rows", "ledger rows written per second", "/s", 84.6 * size.worse, true},
      {"batches", "batches of rows written per second", "/s", 3.25, true},
      {"rows_read", "ledger rows read per second", "/s", 412 * size.worse, true},
      {"propagation_p50", "from an admission to its use in another region, median", "ms", 182,
       true},
      {"propagation_p99", "from an admission to its use in another region, 99 %", "ms",
       1'240 / size.worse, true},
      {"lost_with_nodes", "unacknowledged cost lost with a process", "", 17, true},
      {"disagreements", "windows on which nodes disagree at the end", "", 0, true},
  };
  r.faults = {{"the origin refuses, eu-west", seconds * 0.25, seconds * 0.375},
              {"a node is killed, us-east/2", seconds * 0.55, seconds * 0.55},
              {"the ledger is slow (400 ms)", seconds * 0.6, seconds * 0.75}};
  r.expectations = {{"worst_cell <= 1.35", 1.0 + 0.124 * size.worse, true},
                    {"unexcused <= 0", 0, true},
                    {"disagreements = 0", 0, true},
                    {"rows <= 100", 84.6 * size.worse, 84.6 * size.worse <= 100}};

  const size_t points = size.seconds + 5;
  const auto in = [&](size_t i, const FaultSpan& fault) {
    return static_cast<double>(i) >= fault.from && static_cast<double>(i) < fault.to;
  };
  std::vector<Series> admitted;
  for (size_t region = 0; region < size.regions; ++region) {
    const double weight = 1.0 / (1.0 + 0.35 * static_cast<double>(region));
    Series series{"admitted:" + r.regions[region], "admitted in " + r.regions[region], {}};
    for (size_t i = 0; i < points; ++i) {
      const double wave = 1 + 0.3 * std::sin(static_cast<double>(i) / 23 + double(region));
      series.values.push_back(
          i < size.seconds ? 4000 * weight * wave * (0.95 + 0.1 * chance(random)) : 0);
    }
    admitted.push_back(series);
  }
  const auto series = [&](const char* key, const char* label, double level, double in_fault) {
    Series made{key, label, {}};
    for (size_t i = 0; i < points; ++i) {
      const double factor = in(i, r.faults[0]) || in(i, r.faults[2]) ? in_fault : 1;
      made.values.push_back(
          i < size.seconds ? level * factor * size.worse * (0.8 + 0.4 * chance(random)) : 0);
    }
    return made;
  };
  r.series.push_back(series("offered", "requests offered per second", 12'345, 1));
  r.series.push_back(series("admitted", "admitted per second", 10'000, 1));
  r.series.push_back(series("denied", "denied per second", 2'200, 1.6));
  for (Series& each : admitted) r.series.push_back(std::move(each));
  r.series.push_back(series("rows", "ledger rows written per second", 84, 1.8));
  r.series.push_back(series("rows_read", "ledger rows read per second", 412, 1.3));
  r.series.push_back(series("origin_commands", "origin commands per second", 2'204, 0.7));
  r.series.push_back(series("degraded", "decided without the origin per second", 20, 30));

  for (int key = 0; key < 2; ++key) {
    Spotlight spot{.name = "api/user-" + std::to_string(key),
                   .limit = key == 0 ? Count{600} : Count{5000},
                   .duration = key == 0 ? Millis(60'000) : Millis(30'000),
                   .admitted = {},
                   .offered = {}};
    const double rate = double(spot.limit) / (double(spot.duration.count()) / 1000);
    spot.admitted.resize(size.regions);
    std::vector<double> used;
    double in_window = 0;
    for (size_t i = 0; i < points; ++i) {
      if (i % static_cast<size_t>(spot.duration.count() / 1000) == 0) in_window = 0;
      const bool measured = i < size.seconds;
      const double demand = measured ? rate * 1.6 * (0.6 + 0.8 * chance(random)) : 0;
      spot.offered.push_back(static_cast<uint32_t>(demand));
      for (size_t region = 0; region < size.regions; ++region) {
        const double share = demand / double(size.regions);
        const double left = std::max(0.0, double(spot.limit) * 1.06 - in_window);
        const double admitted_now =
            std::floor(std::min(share * (0.7 + 0.6 * chance(random)), left));
        spot.admitted[region].push_back(static_cast<uint32_t>(admitted_now));
        in_window += admitted_now;
      }
    }
    r.spotlights.push_back(std::move(spot));
  }
  for (int i = 0; i < 4000; ++i) {
    const double luck = chance(random);
    r.cell_shares.push_back(luck < 0.72 ? 1.0
                                        : 1.0 + 0.13 * size.worse * std::pow(chance(random), 3) -
                                              (luck > 0.9 ? 0.06 * chance(random) : 0));
    r.delays_ms.push_back((80 + 1400 * std::pow(chance(random), 4)) / size.worse);
  }
  return r;
}

}  // namespace weir::sim
