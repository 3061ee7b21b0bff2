// The admissions of one key over time, as series for a plot.

#pragma once

#include <cstdint>
#include <vector>

#include "lab/comparison.h"

namespace weir::lab {

// Steps per duration.
inline constexpr int64_t kStepsPerWindow = 10;

// The part of the traffic that is plotted: one key, from the start of the window of its first
// request.
struct Excerpt {
  uint32_t key = 0;
  WallTime from{};
  Millis duration{1};
  size_t steps = 0;

  // Step i is [at(i), at(i + 1)).
  [[nodiscard]] WallTime at(size_t step) const {
    return from + duration * static_cast<int64_t>(step) / kStepsPerWindow;
  }
};

// The key with the most cost, over at most `windows` durations. The traffic is not empty.
[[nodiscard]] Excerpt excerpt_of(const Traffic& traffic, Millis duration, int64_t windows);

// One value for each step.
using Series = std::vector<double>;

// The cost in each step. Without decisions, of all requests; else of those admitted.
[[nodiscard]] Series cost_per_step(const Traffic& traffic, const Excerpt& excerpt,
                                   const Decisions* decisions);

// The most cost that was admitted in a trailing window which ends in the step.
[[nodiscard]] Series trailing_per_step(const Traffic& traffic, const Excerpt& excerpt,
                                       const Decisions& decisions);

}  // namespace weir::lab
