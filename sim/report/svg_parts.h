// What the plots of a page are put together from.

#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace weir::sim {

// Lengths in pixels.
inline constexpr double kRight = 18;
inline constexpr double kBottom = 42;

[[nodiscard]] inline double finite(double value) {
  return std::isfinite(value) ? value : 0;
}

// About how wide a label becomes.
[[nodiscard]] double width_of(std::string_view text);

struct Spot {
  double x = 0;
  double y = 0;
};

// Its letters are escaped; the kind is a class of page_style.h.
[[nodiscard]] std::string text_at(Spot spot, std::string_view kind, std::string_view words);
[[nodiscard]] std::string line(Spot from, Spot to, std::string_view kind);
[[nodiscard]] std::string tick_label(double value);

struct Named {
  std::string label;
  std::string colour;
  std::string_view kind;  // of the swatch
};

struct FigureParts {
  std::string title;
  std::string note;
  std::vector<Named> legend;
  std::string svg;
  std::string data;  // JSON for the script; empty: nothing happens when somebody points at it
};
[[nodiscard]] std::string figure_of(const FigureParts& parts);

}  // namespace weir::sim
