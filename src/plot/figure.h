// A <figure> of a page: title, note, legend, image, and the values that the page's script shows
// under the pointer (page_style.h).

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::plot {

struct LegendEntry {
  std::string label;
  std::string colour;
  std::string_view swatch;  // CSS class: "block", "stroke" or "faint"
};

struct Figure {
  std::string title;
  std::string note;
  std::vector<LegendEntry> legend;
  std::string svg;
  std::string data;  // JSON for the script; empty: the figure does not react to the pointer
};
[[nodiscard]] std::string to_html(const Figure& figure);

// Two figures per row where the window is wide enough.
[[nodiscard]] std::string side_by_side(const std::string& figures);

}  // namespace weir::plot
