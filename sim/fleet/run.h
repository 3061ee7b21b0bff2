// Lives a scenario from beginning to end.

#pragma once

#include <functional>

#include "sim/fleet/results.h"
#include "sim/fleet/scenario.h"

namespace weir::sim {

// Called now and then with how much of the simulated time has passed.
using Progress = std::function<void(Millis passed, Millis all)>;

// The same scenario and seed always come to the same results, `took_seconds` apart, which is left
// to the caller: nobody here knows what time it is.
[[nodiscard]] Results run_scenario(const Scenario& scenario, const Progress& progress = {});

}  // namespace weir::sim
