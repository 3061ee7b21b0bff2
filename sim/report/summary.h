// What a person at a terminal wants to know of a run: one screen of 80 columns, ASCII but for what
// the scenario itself says.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/results.h"

namespace weir::sim {

[[nodiscard]] std::string summary(const Results& results);

// Side by side; the first is what the others are better or worse than.
[[nodiscard]] std::string comparison(const std::vector<Results>& variants);

// The same scenario with many seeds: the least, the median and the most of each figure.
[[nodiscard]] std::string seeds_summary(const std::vector<Results>& seeds);

// Broken between words, without what a terminal would obey; a word wider than a line is cut.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, size_t width);

}  // namespace weir::sim
