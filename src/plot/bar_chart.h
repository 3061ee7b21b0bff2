// Groups of horizontal bars, as an SVG file that stands alone. It follows the viewer's light or
// dark scheme.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::plot {

enum class BarStyle : uint8_t {
  kPrimary,   // the subject of the chart
  kOther,     // compared with it
  kBaseline,  // an outline: a bound, not a competitor
};

struct Bar {
  std::string label;
  double value = 0;
  BarStyle style = BarStyle::kPrimary;
};

struct BarGroup {
  std::string title;
  std::vector<Bar> bars;
};

struct BarChart {
  std::string title;
  std::string subtitle;
  std::string unit;  // after each value
  std::vector<BarGroup> groups;
  std::vector<std::string> footnotes = {};  // one line each
};

// Empty if no group has a bar with a positive value. Empty groups are left out.
[[nodiscard]] std::string to_svg(const BarChart& chart);

}  // namespace weir::plot
