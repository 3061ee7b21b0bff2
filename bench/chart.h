// The chart of the results: decisions per second of Weir and its peers.

#pragma once

#include <string>

#include "bench/machine.h"
#include "bench/results.h"

namespace weir::bench {

// An SVG file; empty if none of its benchmarks ran.
[[nodiscard]] std::string chart(const Results& results, const Machine& machine);

}  // namespace weir::bench
