// Results as JSON: all of them, always in the same order; what is no number is null.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/results.h"

namespace weir::sim {

// {"runs": [...]}, as many as there are.
[[nodiscard]] std::string to_json(const std::vector<Results>& runs);

[[nodiscard]] std::string to_json(const Results& results);

// In quotes. Bytes that are not UTF-8 become U+FFFD; a '<' is escaped as well, so that the text
// can stand in a page.
[[nodiscard]] std::string json_string(std::string_view text);

// As many digits as it takes to read the same number.
[[nodiscard]] std::string json_number(double value);

}  // namespace weir::sim
