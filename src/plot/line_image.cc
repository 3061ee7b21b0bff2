#include "plot/line_image.h"

#include <fmt/format.h>

#include <algorithm>

#include "plot/page_style.h"
#include "plot/svg.h"
#include "plot/text.h"

namespace weir::plot {
namespace {

// Lengths in pixels.
constexpr double kImageMargin = 24;
constexpr double kImageHeader = 66;
constexpr double kPanelTitle = 24;
constexpr double kLegendHeight = 22;
constexpr double kPanelGap = 14;

// Draws the legend in one or more lines with its top at `y`, and moves `y` below it.
std::string draw_legend(const std::vector<LegendEntry>& entries, double width, double& y) {
  constexpr double kSwatch = 16;
  std::string out;
  double x = kImageMargin;
  for (const LegendEntry& each : entries) {
    const double wide = kSwatch + 6 + text_width(each.label) * 1.1 + 18;
    if (x > kImageMargin && x + wide > width - kImageMargin) {
      x = kImageMargin;
      y += kLegendHeight;
    }
    const double height = each.swatch == "block" ? 10 : 3;
    out += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.0f}" height="{:.0f}" fill="{}"/>)",
                       x, y + 8 - height / 2, kSwatch, height, escape_html(each.colour));
    out += text_at({x + kSwatch + 6, y + 12}, "key", each.label) + '\n';
    x += wide;
  }
  y += kLegendHeight;
  return out;
}

}  // namespace

std::string to_svg(const LineImage& image) {
  double width = 0;
  for (const LinePlot& panel : image.panels) width = std::max(width, panel.width);
  double y = kImageHeader;
  std::string panels;
  for (const LinePlot& panel : image.panels) {
    panels += text_at({kImageMargin, y + 14}, "group", panel.title) + '\n';
    y += kPanelTitle;
    panels += draw_legend(legend_of(panel), width, y);
    const SvgElement element = to_svg_element(panel, {.x = 0, .y = y});
    panels += element.text + '\n';
    y += element.height + kPanelGap;
  }
  return fmt::format(
             R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" )"
             R"(width="{0:.0f}" height="{1:.0f}" style="max-width:100%;height:auto" role="img">)"
             "\n<style>{2}{3}</style>\n"
             R"(<rect width="100%" height="100%" class="surface"/>)"
             "\n",
             width, y, kImageStyle, kLineImageStyle) +
         text_at({kImageMargin, 32}, "title", image.title) + '\n' +
         text_at({kImageMargin, 52}, "note", image.subtitle) + '\n' + panels + "</svg>\n";
}

}  // namespace weir::plot
