// Makes a world that breaks smaller: fewer nodes, regions, tuples and kinds of faults, and less
// time, as long as the same invariant breaks. The result has only what the violation needs.
//
// Greedy: a smaller world that still breaks replaces the current one. Each change draws other
// random numbers, so a few seeds are tried for each.

#pragma once

#include <functional>
#include <string_view>

#include "sim/worlds/world.h"

namespace weir::sim {

struct Shrunk {
  WorldOptions options;
  RunReport report;  // of that world
  int runs = 0;      // needed
};

// The checker that reported the violation.
[[nodiscard]] std::string_view checker_of(const RunReport& broken);

// `broken` is the report of the world with these options. Stops after `most_runs` worlds, or when
// `stops` returns true.
[[nodiscard]] Shrunk shrink(
    const WorldOptions& options, const RunReport& broken, int most_runs,
    const std::function<bool()>& stops = [] { return false; });

}  // namespace weir::sim
