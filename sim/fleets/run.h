// Runs a scenario from beginning to end.

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "sim/faults/planted_bug.h"
#include "sim/scenario/results.h"
#include "sim/scenario/scenario.h"

namespace weir::sim {

// Called every simulated second.
using Progress = std::function<void(Millis passed, Millis all)>;

// Runs every checker of a world after each event; for small scenarios.
struct CheckOptions {
  std::string only_checker = {};               // empty: all
  PlantedBug planted_bug = PlantedBug::kNone;  // to test the checkers
};

struct RunOptions {
  Progress progress = {};
  std::function<Nanos()> stopwatch = {};  // real time, to measure the CPU cost of sharing
  std::optional<CheckOptions> checks = {};
};

// The same scenario and seed always give the same results, except for seconds of real time. Checks
// change only `broken` and `last_events`. The caller fills in `took_seconds`.
[[nodiscard]] Results run_scenario(const Scenario& scenario, const RunOptions& options = {});

}  // namespace weir::sim
