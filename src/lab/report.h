// The results of `weir lab`: tables for the terminal and a plot.

#pragma once

#include <string>
#include <vector>

#include "lab/comparison.h"

namespace weir::lab {

// How the traffic was made, for the heading.
struct Subject {
  std::string title;    // "poisson"
  std::string meaning;  // one line; may be empty
};

// "-" where a cost is missing.
struct DecisionCost {
  Algorithm algorithm = Algorithm::kFixedWindow;
  std::string nanos = "-";
};

[[nodiscard]] std::string text_report(const Subject& subject, const Traffic& traffic,
                                      const Comparison& comparison,
                                      const std::vector<DecisionCost>& costs);

// An SVG of the first windows of the busiest key: what it was admitted in each step, and in the
// trailing window.
[[nodiscard]] std::string svg_report(const Subject& subject, const Traffic& traffic,
                                     const Comparison& comparison, int64_t windows);

}  // namespace weir::lab
