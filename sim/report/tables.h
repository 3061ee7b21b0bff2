// The tables of a page.

#pragma once

#include <string>
#include <vector>

#include "sim/scenario/results.h"

namespace weir::sim {

// Which way a figure went and whether that is good, as a piece of a page; empty where it says
// nothing.
[[nodiscard]] std::string difference_mark(const Figure& from, const Figure& to);

// Each with its heading; empty where there is nothing to show.
[[nodiscard]] std::string promises_table(const std::vector<Results>& variants);
[[nodiscard]] std::string faults_table(const Results& results);
[[nodiscard]] std::string figures_table(const std::vector<Results>& variants);

}  // namespace weir::sim
