#include "plot/bar_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "plot/page_style.h"
#include "plot/svg.h"
#include "plot/ticks.h"

namespace weir::plot {
namespace {

// Lengths in pixels.
constexpr double kMargin = 24;
constexpr double kLeft = 190;
constexpr double kPlotWidth = 540;
constexpr double kWidth = kLeft + kPlotWidth + 90;
constexpr double kTop = 66;
constexpr double kBarHeight = 18;
constexpr double kBarStep = 22;
constexpr double kGroupTitle = 26;
constexpr double kGroupGap = 14;
constexpr double kFootnoteStep = 16;
constexpr size_t kTickCount = 8;

std::string_view css_class(BarStyle style) {
  switch (style) {
    case BarStyle::kPrimary: return "primary";
    case BarStyle::kOther: return "other";
    case BarStyle::kBaseline: break;
  }
  return "baseline";
}

double max_value(const BarChart& chart) {
  double max = 0;
  for (const BarGroup& group : chart.groups) {
    for (const Bar& bar : group.bars) max = std::max(max, finite(bar.value));
  }
  return max;
}

// Draws one group with its top at `y` and moves `y` to the top of the next.
std::string draw_group(const BarGroup& group, std::string_view unit, double scale, double& y) {
  if (group.bars.empty()) return {};
  std::string out = text_at({kLeft, y + kGroupTitle - 8}, "group", group.title) + '\n';
  y += kGroupTitle;
  for (const Bar& bar : group.bars) {
    const double width = std::max(1.0, finite(bar.value) * scale);
    out += text_at({kLeft - 8, y + 13}, "end", bar.label);
    out += fmt::format(R"(<rect x="{:.0f}" y="{:.0f}" width="{:.1f}" height="{:.0f}" class="{}"/>)",
                       kLeft, y, width, kBarHeight, css_class(bar.style));
    out += text_at({kLeft + width + 6, y + 13}, "value",
                   fmt::format("{:.1f} {}", finite(bar.value), unit));
    out += '\n';
    y += kBarStep;
  }
  y += kGroupGap;
  return out;
}

std::string draw_grid(double max, double scale, double bottom) {
  std::string out;
  for (const double tick : ticks_up_to(max, kTickCount)) {
    const double x = kLeft + tick * scale;
    if (x > kLeft + kPlotWidth + 1) break;
    out += line({x, kTop}, {x, bottom}, "grid");
    out += text_at({x, bottom + 16}, "note middle", tick_label(tick)) + '\n';
  }
  return out;
}

}  // namespace

std::string to_svg(const BarChart& chart) {
  const double max = max_value(chart);
  if (max <= 0) return {};
  const double scale = kPlotWidth / max;
  double y = kTop;
  std::string groups;
  for (const BarGroup& group : chart.groups) groups += draw_group(group, chart.unit, scale, y);
  const double bottom = y - kGroupGap + 4;
  double below = bottom + 42;
  std::string footnotes;
  for (const std::string& footnote : chart.footnotes) {
    footnotes += text_at({kMargin, below}, "note", footnote) + '\n';
    below += kFootnoteStep;
  }
  return fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" )"
                     R"(width="{0:.0f}" height="{1:.0f}" role="img">)"
                     "\n<style>{2}</style>\n"
                     R"(<rect width="100%" height="100%" class="surface"/>)"
                     "\n",
                     kWidth, below + 2, kImageStyle) +
         text_at({kMargin, 32}, "title", chart.title) + '\n' +
         text_at({kMargin, 52}, "note", chart.subtitle) + '\n' + draw_grid(max, scale, bottom) +
         groups + footnotes + "</svg>\n";
}

}  // namespace weir::plot
