// The range of a whole number in an argument or a field.

#pragma once

#include <cstdint>
#include <string>

namespace weir::frontends {

struct Range {
  int64_t min = 0;
  int64_t max = 0;

  [[nodiscard]] constexpr bool holds(int64_t value) const { return min <= value && value <= max; }
  // For error messages.
  [[nodiscard]] std::string text() const {
    return "a whole number from " + std::to_string(min) + " to " + std::to_string(max);
  }
};

}  // namespace weir::frontends
