// The picture: decisions per second, Weir beside its peers.

#pragma once

#include <string>

#include "bench/machine.h"
#include "bench/results.h"

namespace weir::bench {

// A self-contained SVG; empty if the filter left nothing to draw.
[[nodiscard]] std::string chart(const Results& results, const Machine& machine);

}  // namespace weir::bench
