// The HTML report of one run, or of several variants of a scenario side by side (plot/page.h).

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/fleet/results.h"

namespace weir::sim {

// The first variant is the one that the others are compared with. `command` reproduces the report.
[[nodiscard]] std::string to_html(const std::vector<Results>& variants, std::string_view command);

}  // namespace weir::sim
