// How figures are shown: written how, in which groups, and which of two is the better one.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/results.h"

namespace weir::sim {

// The digits that matter, no fraction where there is none; "?" for what is no number.
[[nodiscard]] std::string readable(double value, std::string_view thousands = ",");

[[nodiscard]] std::string with_unit(const Figure& figure, std::string_view thousands = ",");

// At most 30 letters for what is known here, where the label would take a line.
[[nodiscard]] std::string short_label(const Figure& figure);

struct FigureGroup {
  std::string title;
  std::vector<Figure> figures = {};
};

// All figures, each in one group; what nobody knew of when this was written comes last. No group
// is empty.
[[nodiscard]] std::vector<FigureGroup> grouped(const std::vector<Figure>& figures);

enum class Difference : uint8_t {
  kNone,  // or none that shows
  kBetter,
  kWorse,
  kNeither,  // unlike, but it says nothing: what was offered, what is allowed
};
[[nodiscard]] Difference difference(const Figure& from, const Figure& to);
[[nodiscard]] std::string_view to_string(Difference difference);

[[nodiscard]] const Figure* find_figure(const Results& results, std::string_view key);
[[nodiscard]] const Series* find_series(const Results& results, std::string_view key);

// What to call this run beside others of its scenario.
[[nodiscard]] std::string variant_name(const Results& results);

// "240 s simulated in 1.9 s (126x)"
[[nodiscard]] std::string speed_of(const Results& results, std::string_view thousands = ",");

}  // namespace weir::sim
