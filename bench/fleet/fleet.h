// What sharing limits between regions costs and how exact it is, in a simulated fleet: Weir's rule
// beside the one of the RFC it was written against, in the same simulator and on the same limiter.

#pragma once

#include <string>
#include <vector>

#include "bench/machine.h"
#include "sim/fleet/attacks.h"
#include "sim/fleet/traffic.h"

namespace weir::bench {

struct TrafficRun {
  std::string mood;    // "normal", "burst"
  std::string policy;  // "weir", "floor"
  sim::TrafficReport report;
  double took = 0;  // seconds of processor time
};

struct AttackRun {
  std::string attack;
  std::string policy;
  uint32_t regions = 0;
  uint32_t processes = 0;
  sim::AttackReport report;
};

struct FleetResults {
  std::vector<TrafficRun> traffic;
  std::vector<AttackRun> attacks;
  std::vector<AttackRun> lone;              // a hot key in one region
  std::vector<sim::FloodReport> flood;      // one, if it was run
  std::vector<sim::TrafficReport> crowded;  // the same: 24,000 cells in each of two processes
  bool quick = false;
};

struct FleetPlan {
  bool quick = false;
  std::string only;  // "traffic", "attacks", "flood", "processor"; empty: everything
};

// Runs what is planned, and prints each table when it is known.
[[nodiscard]] FleetResults measure_fleet(const FleetPlan& plan);

[[nodiscard]] std::string table_of_traffic(const FleetResults& results);
[[nodiscard]] std::string table_of_attacks(const FleetResults& results);
[[nodiscard]] std::string table_of_flood(const sim::FloodReport& report);
[[nodiscard]] std::string lines_on_processor(const sim::TrafficReport& report);

[[nodiscard]] std::string fleet_json(const FleetResults& results, const Machine& machine);
// Attacks as bars, in limits; empty if there were none.
[[nodiscard]] std::string fleet_chart(const FleetResults& results);

}  // namespace weir::bench
