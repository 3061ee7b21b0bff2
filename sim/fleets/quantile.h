// A quantile of a set of values.

#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace weir::sim {

[[nodiscard]] inline float quantile(std::vector<float> values, double part) {
  if (values.empty()) return 0;
  const auto at =
      std::min(values.size() - 1, static_cast<size_t>(part * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

}  // namespace weir::sim
