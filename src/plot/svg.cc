#include "plot/svg.h"

#include <fmt/format.h>

#include <algorithm>

#include "plot/text.h"

namespace weir::plot {

double text_width(std::string_view text) {
  constexpr double kCharacter = 6.4;  // the mean width in a label of 11 px
  const auto characters = std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
  return static_cast<double>(characters) * kCharacter;
}

std::string text_at(Point at, std::string_view css_class, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>", at.x, at.y,
                     css_class, escape_html(text));
}

std::string line(Point from, Point to, std::string_view css_class) {
  return fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)",
                     from.x, from.y, to.x, to.y, css_class);
}

}  // namespace weir::plot
