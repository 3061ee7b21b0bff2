// Stacked areas and curves over time or over a number, as a figure of a page.
//
// Any values can be plotted: NaN and infinity are left out, and an empty range is widened. Labels
// that would overlap are left out.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plot/figure.h"
#include "plot/svg.h"

namespace weir::plot {

// One value for each x of the plot.
struct Area {
  std::string label;
  std::string colour;  // a CSS colour of the page: "var(--c0)"
  std::vector<double> values;
};

struct Curve {
  std::string label;
  std::string colour;
  std::vector<double> x;
  std::vector<double> y;
  // A faint curve does not extend the y axis.
  enum class Weight : uint8_t { kStrong, kFaint } weight = Weight::kStrong;
};

struct ReferenceLine {
  double at = 0;
  std::string label;
};

// A shaded interval of the x axis; a single line if both ends are equal.
struct Span {
  std::string label;
  double from = 0;
  double to = 0;
};

struct LinePlot {
  std::string title;
  std::string note = {};
  double width = 1080;
  double height = 260;
  enum class XAxis : uint8_t { kTime, kLinear, kLogarithmic } x_axis = XAxis::kTime;
  std::string x_label = {};
  double from = 0;  // of the x axis
  double to = 0;
  double top = 0;                          // of the y axis; 0: chosen from the values
  std::string unit = {};                   // of the y axis: "%"
  std::vector<double> x = {};              // of the areas
  std::vector<Area> areas = {};            // stacked, the first at the bottom
  std::vector<Curve> curves = {};          // the first is drawn on top
  std::vector<ReferenceLine> levels = {};  // horizontal lines
  std::vector<Span> spans = {};
};
[[nodiscard]] std::string to_html(const LinePlot& plot);

// The plot without title and legend, for an image: an <svg> element with its corner at a point.
struct SvgElement {
  std::string text;
  double height = 0;
};
[[nodiscard]] SvgElement to_svg_element(const LinePlot& plot, Point corner);
// Empty if the plot has a single series.
[[nodiscard]] std::vector<LegendEntry> legend_of(const LinePlot& plot);

// The highest sum of the areas.
[[nodiscard]] double stack_height(const LinePlot& plot);

}  // namespace weir::plot
