// The tables of a page.

#pragma once

#include <string>
#include <vector>

#include "sim/fleet/results.h"

namespace weir::sim {

// The direction of a change and whether it is better or worse, as HTML; empty if it is neither.
[[nodiscard]] std::string difference_mark(const Figure& from, const Figure& to);

// Each with its heading; empty if there is nothing to show.
[[nodiscard]] std::string expectations_table(const std::vector<Results>& variants);
[[nodiscard]] std::string faults_table(const Results& results);
[[nodiscard]] std::string figures_table(const std::vector<Results>& variants);

}  // namespace weir::sim
