// Results as JSON, with a fixed order of keys. NaN and infinity are null.

#pragma once

#include <string>
#include <vector>

#include "sim/fleet/results.h"

namespace weir::sim {

// {"runs": [...]}
[[nodiscard]] std::string to_json(const std::vector<Results>& runs);

[[nodiscard]] std::string to_json(const Results& results);

}  // namespace weir::sim
