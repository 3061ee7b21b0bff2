// The built-in traffic shapes.
//
// All rates are relative to the limit, and all times to the duration. Numbers are drawn with
// integers from a seed, so one seed gives the same requests on every machine.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lab/traffic.h"

namespace weir::lab {

struct ShapeSettings {
  Limit limit{};
  size_t requests = 20'000;
  uint64_t seed = 1;
};

struct Shape {
  std::string_view name;
  std::string_view meaning;  // one line
  Traffic (*make)(const ShapeSettings& settings);
};

[[nodiscard]] const std::vector<Shape>& shapes();
[[nodiscard]] const Shape* find_shape(std::string_view name);

// The traffic of the shape, with its name.
[[nodiscard]] Traffic make_traffic(const Shape& shape, const ShapeSettings& settings);

// Parameters of the shapes.
inline constexpr uint64_t kBelowPercent = 80;      // of the limit, in each window
inline constexpr uint64_t kAbovePercent = 150;     // of the limit, in each window
inline constexpr uint64_t kLockStepPercent = 150;  // of the limit, at the first tick of each window
inline constexpr uint64_t kOnPercent = 300;        // of the limit, in a window of the on phase
inline constexpr size_t kSkewedKeys = 10'000;

}  // namespace weir::lab
