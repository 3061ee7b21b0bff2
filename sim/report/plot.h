// Plots as inline SVG, in figures of a page: title, legend, picture, and the values for who points
// at them (page_style.h has the script).
//
// Whatever the values are, a plot is drawn: what is no number is left out, nothing is divided by
// an empty range. Labels that would lie on each other are left out as well.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/results.h"

namespace weir::sim {

// Safe in the text and in the attributes of a page.
[[nodiscard]] std::string escaped(std::string_view text);

// The thin space between thousands in a page.
inline constexpr std::string_view kThin = "\u202f";

// Multiples of 1, 2 or 5 times a power of ten, from 0 to at least `most`; at least two of them.
[[nodiscard]] std::vector<double> ticks_up_to(double most, size_t about);

// Which of the values to draw where there is room for `room` points: the least and the most of
// each pixel and both ends, ascending; all where they fit.
[[nodiscard]] std::vector<size_t> thinned(const std::vector<double>& values, size_t room);

struct Layer {
  std::string label;
  std::string colour;  // of a page: "var(--c0)"
  std::vector<double> values;
};

struct Curve {
  std::string label;
  std::string colour;
  std::vector<double> x;
  std::vector<double> y;
  enum class Weight : uint8_t { kStrong, kFaint } weight = Weight::kStrong;
};

struct Level {
  double at = 0;
  std::string label;
};

struct Plot {
  std::string title;
  std::string note = {};
  double width = 1080;
  double height = 260;
  enum class Across : uint8_t { kTime, kNumber, kLogarithm } across = Across::kTime;
  std::string across_label = {};
  double from = 0;
  double to = 0;
  double top = 0;                  // of the upright axis; 0: as it takes
  std::string unit = {};           // of the upright axis: "%"
  std::vector<double> x = {};      // of the layers
  std::vector<Layer> layers = {};  // one upon the other, the first at the bottom
  std::vector<Curve> curves = {};  // the first above the others
  std::vector<Level> levels = {};  // lines across
  std::vector<FaultSpan> spans = {};
};
[[nodiscard]] std::string to_figure(const Plot& plot);

// How many of something lie between two edges, in percent, for one or several sets.
struct Bars {
  std::string title;
  std::string note = {};
  double width = 1080;
  double height = 260;
  std::string across_label = {};
  std::vector<double> edges;      // evenly apart, whatever they are
  std::vector<Layer> sets;        // one value less than there are edges
  std::vector<Level> marks = {};  // upright lines
};
[[nodiscard]] std::string to_figure(const Bars& bars);

}  // namespace weir::sim
