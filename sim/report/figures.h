// The presentation of figures: text, groups, and which of two values is better.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/fleet/results.h"

namespace weir::sim {

[[nodiscard]] std::string with_unit(const Figure& figure, std::string_view thousands = ",");

// At most 30 characters for a known figure, whose label may be longer.
[[nodiscard]] std::string short_label(const Figure& figure);

struct FigureGroup {
  std::string title;
  std::vector<Figure> figures = {};
};

// Every figure in exactly one group; unknown figures come last. No group is empty.
[[nodiscard]] std::vector<FigureGroup> grouped(const std::vector<Figure>& figures);

enum class Difference : uint8_t {
  kNone,  // the texts are equal
  kBetter,
  kWorse,
  kNeither,  // inputs such as the offered load, or a value that is not finite
};
[[nodiscard]] Difference difference(const Figure& from, const Figure& to);
[[nodiscard]] std::string_view to_string(Difference difference);

[[nodiscard]] const Figure* find_figure(const Results& results, std::string_view key);
[[nodiscard]] const Series* find_series(const Results& results, std::string_view key);

// The name of this run among other variants of its scenario.
[[nodiscard]] std::string variant_name(const Results& results);

// "240 s simulated in 1.9 s (126x)"
[[nodiscard]] std::string speed_of(const Results& results, std::string_view thousands = ",");

}  // namespace weir::sim
