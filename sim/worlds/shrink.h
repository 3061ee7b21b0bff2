// Makes a world that breaks smaller: fewer nodes, regions, tuples and kinds of misfortune, a
// shorter storm, for as long as the same invariant breaks. What is left is what the fault needs.
//
// Greedy: a smaller world that still breaks takes the place of the one before it. One thing changed
// draws other numbers, so a few seeds are tried for each.

#pragma once

#include <functional>
#include <string_view>

#include "sim/worlds/world.h"

namespace weir::sim {

struct Shrunk {
  WorldOptions options;
  RunReport report;  // of that world
  int runs = 0;      // that it took
};

// The checker that complained.
[[nodiscard]] std::string_view checker_of(const RunReport& broken);

// `broken` is what the world with these options came to. Stops after `most_runs` worlds, or when
// `stops` says so.
[[nodiscard]] Shrunk shrink(
    const WorldOptions& options, const RunReport& broken, int most_runs,
    const std::function<bool()>& stops = [] { return false; });

}  // namespace weir::sim
