// The table that a person reads: what, how long, against what, and whether the bar for
// it is met.

#pragma once

#include <string>

#include "bench/results.h"

namespace weir::bench {

// Rows whose benchmarks did not run are left out.
[[nodiscard]] std::string report(const Results& results);

}  // namespace weir::bench
