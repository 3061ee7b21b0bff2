// The figures of every scenario: one list for results, expectations and documentation.

#pragma once

#include <span>
#include <string_view>

#include "sim/scenario/results.h"

namespace weir::sim {

struct FigureName {
  std::string_view key;
  std::string_view group;  // "traffic", "exactness", "cost", "propagation": its section
  std::string_view name;   // at most 30 letters, where the label is too long
  std::string_view label;
  std::string_view unit;  // "", "/s", "ms", "%"
  bool less_is_better = true;
};

// In the order to show them.
[[nodiscard]] std::span<const FigureName> known_figures();

// With the label and unit of its name.
[[nodiscard]] Figure figure_of(std::string_view key, double value);

// Null if no figure has that key.
[[nodiscard]] const FigureName* find_figure(std::string_view key);

}  // namespace weir::sim
