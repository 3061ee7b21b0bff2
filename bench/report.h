// The results as a table: time, rate, ratio to a baseline, and whether the target is met.

#pragma once

#include <string>

#include "bench/results.h"

namespace weir::bench {

// Leaves out rows whose benchmarks did not run.
[[nodiscard]] std::string report(const Results& results);

}  // namespace weir::bench
