// The names of algorithms and consistencies, as errors list them.

#pragma once

#include <string_view>

namespace weir::frontends {

inline constexpr std::string_view kAlgorithmNames =
    "sliding_window, sliding_window_strict, fixed_window, sliding_log, gcra or token_bucket";
inline constexpr std::string_view kConsistencyNames = "converge, exact or relaxed";

}  // namespace weir::frontends
