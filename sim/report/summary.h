// Results for a terminal: one screen of 80 columns. The text is ASCII except for names from the
// scenario.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/fleet/results.h"

namespace weir::sim {

[[nodiscard]] std::string summary(const Results& results);

// Side by side: each variant is better or worse than the first.
[[nodiscard]] std::string comparison(const std::vector<Results>& variants);

// One scenario with many seeds: minimum, median and maximum of each figure.
[[nodiscard]] std::string seeds_summary(const std::vector<Results>& seeds);

// Lines of at most `width` columns, broken between words and without control characters. A word
// wider than a line is cut.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, size_t width);

}  // namespace weir::sim
