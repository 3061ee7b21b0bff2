// The charts of a page, by section. Each section has its heading; it is empty if the results have
// no values for it.

#pragma once

#include <string>
#include <vector>

#include "sim/fleet/results.h"

namespace weir::sim {

// The CSS colour of the variant with this index.
[[nodiscard]] std::string variant_colour(size_t variant);

// Keys that the scenario selects: admitted per window, beside the limit.
[[nodiscard]] std::string key_charts(const std::vector<Results>& variants);

// Admitted by region, and denied.
[[nodiscard]] std::string traffic_charts(const std::vector<Results>& variants);

// How full the windows became.
[[nodiscard]] std::string accuracy_chart(const std::vector<Results>& variants);

// Commands, rows and degraded decisions per second.
[[nodiscard]] std::string cost_charts(const std::vector<Results>& variants);

// The delay from an admission to its use in another region.
[[nodiscard]] std::string propagation_chart(const std::vector<Results>& variants);

}  // namespace weir::sim
