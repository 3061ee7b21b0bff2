// SVG elements that all charts share.

#pragma once

#include <cmath>
#include <string>
#include <string_view>

namespace weir::plot {

// Margins beside the plot area, in pixels.
inline constexpr double kRightMargin = 18;
inline constexpr double kBottomMargin = 42;

// 0 for NaN and infinity.
[[nodiscard]] inline double finite(double value) {
  return std::isfinite(value) ? value : 0;
}

// The approximate width of a label in pixels.
[[nodiscard]] double text_width(std::string_view text);

struct Point {
  double x = 0;
  double y = 0;
};

// The text is escaped; `css_class` is defined in page_style.h.
[[nodiscard]] std::string text_at(Point at, std::string_view css_class, std::string_view text);
[[nodiscard]] std::string line(Point from, Point to, std::string_view css_class);

}  // namespace weir::plot
