#include "plot/histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/figure.h"
#include "plot/svg.h"
#include "plot/text.h"
#include "plot/ticks.h"

namespace weir::plot {
namespace {

// The x position of a value, in bins: edges are drawn at equal distances.
double position(const std::vector<double>& edges, double value) {
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    if (value <= edges[i + 1]) {
      return static_cast<double>(i) +
             std::max(0.0, value - edges[i]) / std::max(1e-12, edges[i + 1] - edges[i]);
    }
  }
  return static_cast<double>(edges.size() - 1);
}

std::string percent(double value) {
  if (value >= 9.95) return fmt::format("{:.0f}%", value);
  return value >= 0.1 ? fmt::format("{:.1f}%", value) : fmt::format("{:.2g}%", value);
}

}  // namespace

std::string to_html(const Histogram& histogram) {
  const size_t bins = histogram.edges.size() < 2 ? 0 : histogram.edges.size() - 1;
  double max = 0;
  for (const Area& set : histogram.sets) {
    for (const double value : set.values) max = std::max(max, finite(value));
  }
  const std::vector<double> ticks = ticks_up_to(max, 4);
  const double left = 48;
  const double right = histogram.width - kRightMargin;
  const double top = 34;
  const double bottom = top + histogram.height;
  const double step = (right - left) / static_cast<double>(std::max<size_t>(bins, 1));
  const auto y = [&](double value) { return bottom - value / ticks.back() * (bottom - top); };
  std::string out = fmt::format(
      R"(<svg style="--w:{0:.0f}px" viewBox="0 0 {0:.0f} {1:.0f}" role="img" aria-label="{2}">)",
      histogram.width, bottom + kBottomMargin, escape_html(histogram.title));
  for (const double tick : ticks) {
    if (tick > 100) continue;
    out += line({left, y(tick)}, {right, y(tick)}, tick == 0 ? "axis" : "grid");
    out += text_at({left - 8, y(tick) + 4}, "tick end", tick_label(tick) + "%");
  }
  for (size_t i = 0; i <= bins && bins > 0; ++i) {
    const double x = left + step * static_cast<double>(i);
    out += line({x, bottom}, {x, bottom + 5}, "axis");
    out += text_at({x, bottom + 19}, "tick middle", tick_label(histogram.edges[i]));
  }
  const double bar = (step - 8) / static_cast<double>(std::max<size_t>(histogram.sets.size(), 1));
  for (size_t set = 0; set < histogram.sets.size(); ++set) {
    for (size_t i = 0; i < bins && i < histogram.sets[set].values.size(); ++i) {
      const double value = finite(histogram.sets[set].values[i]);
      if (value <= 0) continue;
      const double x = left + step * static_cast<double>(i) + 4 + bar * static_cast<double>(set);
      const double height = std::max(1.5, bottom - y(value));
      out += fmt::format(
          R"(<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" style="fill:{}">)"
          "<title>{}: {:.3g}%</title></rect>",
          x + 0.5, bottom - height, std::max(1.0, bar - 1), height, histogram.sets[set].colour,
          escape_html(histogram.sets[set].label), value);
      if (text_width(percent(value)) <= bar + 6) {
        out += text_at({x + bar / 2, bottom - height - 4}, "tick middle", percent(value));
      }
    }
  }
  double free_from = left - 100;
  for (const ReferenceLine& marker : histogram.markers) {
    if (!std::isfinite(marker.at) || bins == 0) continue;
    const double x = left + step * position(histogram.edges, marker.at);
    const double width = text_width(marker.label);
    const double start = std::min(std::max(x - width / 2, free_from), histogram.width - width - 2);
    out += line({x, top - 12}, {x, bottom}, "level");
    if (start >= free_from) out += text_at({start, top - 18}, "level-label", marker.label);
    free_from = start + width + 10;
  }
  out += text_at({(left + right) / 2, bottom + 36}, "tick middle", histogram.x_label) + "</svg>";
  std::vector<LegendEntry> legend;
  for (const Area& set : histogram.sets) {
    legend.push_back({.label = set.label, .colour = set.colour, .swatch = "block"});
  }
  if (legend.size() < 2) legend.clear();
  return to_html(Figure{
      .title = histogram.title, .note = histogram.note, .legend = legend, .svg = out, .data = {}});
}

}  // namespace weir::plot
