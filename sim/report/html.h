// A page that shows a run, or several of one scenario side by side. One file: it needs no network
// and no other file, follows the reader's light or dark, and can be printed.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/results.h"

namespace weir::sim {

// The first is the scenario as written, what the others are compared to. `command` is what makes
// the page again.
[[nodiscard]] std::string to_html(const std::vector<Results>& variants, std::string_view command);

}  // namespace weir::sim
