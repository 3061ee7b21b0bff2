// Lives a scenario from beginning to end.

#pragma once

#include <functional>

#include "sim/scenario/results.h"
#include "sim/scenario/scenario.h"

namespace weir::sim {

// Called now and then with how much of the simulated time has passed.
using Progress = std::function<void(Millis passed, Millis all)>;

// What comes from outside the simulated world.
struct RunOptions {
  Progress progress = {};
  std::function<Nanos()> stopwatch = {};  // real time, to measure what sharing takes
};

// The same scenario and seed always come to the same results, seconds of real time apart.
// `took_seconds` is left to the caller.
[[nodiscard]] Results run_scenario(const Scenario& scenario, const RunOptions& with = {});

}  // namespace weir::sim
