// Line plots below each other, as an SVG file that stands alone. It follows the viewer's light or
// dark scheme.

#pragma once

#include <string>
#include <vector>

#include "plot/line_plot.h"

namespace weir::plot {

struct LineImage {
  std::string title;
  std::string subtitle;
  // Of equal width. Their colours must be literal, such as "#1668b8": there is no page that would
  // define variables.
  std::vector<LinePlot> panels;
};
[[nodiscard]] std::string to_svg(const LineImage& image);

}  // namespace weir::plot
