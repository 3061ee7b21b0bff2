// The distribution of values over bins, for one or several sets, as a figure of a page.

#pragma once

#include <string>
#include <vector>

#include "plot/line_plot.h"

namespace weir::plot {

struct Histogram {
  std::string title;
  std::string note = {};
  double width = 1080;
  double height = 260;
  std::string x_label = {};
  std::vector<double> edges;                // of the bins, ascending; drawn at equal distances
  std::vector<Area> sets;                   // percent per bin: one value fewer than edges
  std::vector<ReferenceLine> markers = {};  // vertical lines
};
[[nodiscard]] std::string to_html(const Histogram& histogram);

}  // namespace weir::plot
