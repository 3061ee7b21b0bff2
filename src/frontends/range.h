// The range of a whole number in an argument or a field.

#pragma once

#include <cstdint>
#include <string>

namespace weir::frontends {

struct Range {
  int64_t least = 0;
  int64_t most = 0;

  [[nodiscard]] constexpr bool holds(int64_t value) const {
    return least <= value && value <= most;
  }
  // For error messages.
  [[nodiscard]] std::string text() const {
    return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  }
};

}  // namespace weir::frontends
