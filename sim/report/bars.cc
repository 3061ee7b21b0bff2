#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/report/plot.h"
#include "sim/report/svg_parts.h"

namespace weir::sim {
namespace {

// Where a value lies between edges that are drawn evenly apart.
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

std::string to_figure(const Bars& bars) {
  const size_t bins = bars.edges.size() < 2 ? 0 : bars.edges.size() - 1;
  double most = 0;
  for (const Layer& set : bars.sets) {
    for (const double value : set.values) most = std::max(most, finite(value));
  }
  const std::vector<double> ticks = ticks_up_to(most, 4);
  const double left = 48;
  const double right = bars.width - kRight;
  const double above = 34;
  const double bottom = above + bars.height;
  const double step = (right - left) / static_cast<double>(std::max<size_t>(bins, 1));
  const auto y = [&](double value) { return bottom - value / ticks.back() * (bottom - above); };
  std::string out = fmt::format(R"(<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">)",
                                bars.width, bottom + kBottom, escaped(bars.title));
  for (const double tick : ticks) {
    if (tick > 100) continue;
    out += line({left, y(tick)}, {right, y(tick)}, tick == 0 ? "axis" : "grid");
    out += text_at({left - 8, y(tick) + 4}, "tick end", tick_label(tick) + "%");
  }
  for (size_t i = 0; i <= bins && bins > 0; ++i) {
    const double x = left + step * static_cast<double>(i);
    out += line({x, bottom}, {x, bottom + 5}, "axis");
    out += text_at({x, bottom + 19}, "tick middle", tick_label(bars.edges[i]));
  }
  const double bar = (step - 8) / static_cast<double>(std::max<size_t>(bars.sets.size(), 1));
  for (size_t set = 0; set < bars.sets.size(); ++set) {
    for (size_t i = 0; i < bins && i < bars.sets[set].values.size(); ++i) {
      const double value = finite(bars.sets[set].values[i]);
      if (value <= 0) continue;
      const double x = left + step * static_cast<double>(i) + 4 + bar * static_cast<double>(set);
      const double height = std::max(1.5, bottom - y(value));
      out += fmt::format(
          R"(<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" style="fill:{}">)"
          "<title>{}: {:.3g}%</title></rect>",
          x + 0.5, bottom - height, std::max(1.0, bar - 1), height, bars.sets[set].colour,
          escaped(bars.sets[set].label), value);
      if (width_of(percent(value)) <= bar + 6) {
        out += text_at({x + bar / 2, bottom - height - 4}, "tick middle", percent(value));
      }
    }
  }
  double free = left - 100;
  for (const Level& mark : bars.marks) {
    if (!std::isfinite(mark.at) || bins == 0) continue;
    const double x = left + step * position(bars.edges, mark.at);
    const double width = width_of(mark.label);
    const double start = std::min(std::max(x - width / 2, free), bars.width - width - 2);
    out += line({x, above - 12}, {x, bottom}, "level");
    if (start >= free) out += text_at({start, above - 18}, "level-label", mark.label);
    free = start + width + 10;
  }
  out += text_at({(left + right) / 2, bottom + 36}, "tick middle", bars.across_label) + "</svg>";
  std::vector<Named> entries;
  for (const Layer& set : bars.sets) entries.push_back({set.label, set.colour, "block"});
  if (entries.size() < 2) entries.clear();
  return figure_of(
      {.title = bars.title, .note = bars.note, .legend = entries, .svg = out, .data = {}});
}

}  // namespace weir::sim
