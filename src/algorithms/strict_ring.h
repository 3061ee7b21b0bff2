// The strict sliding window: 16 sub-cells to a window, the oldest counted in full
// until it has left.
//
// A trailing window (now - duration, now] touches at most 17 sub-cells: the one now
// lies in and the 16 before it. Counting all 17 in full can only over-estimate, so no
// trailing window ever holds more than the limit. When saturated the price is one
// sub-cell in seventeen.
//
// No overflow: 17 counts of at most 2^40 each sum below 2^45.

#pragma once

#include <array>
#include <cstdint>

#include "algorithms/decision.h"

namespace weir::algorithms {

inline constexpr int kRingParts = 16;              // sub-cells to a window
inline constexpr int kRingCells = kRingParts + 1;  // sub-cells that can be in view

// Rounded up, so that 16 sub-cells never span less than the window.
[[nodiscard]] constexpr Millis ring_width(Millis duration) {
  return Millis((duration.count() + kRingParts - 1) / kRingParts);
}

// Counts of the sub-cells in view at a position, oldest first; the last is the one the
// position lies in.
using RingCounts = std::array<Count, kRingCells>;

[[nodiscard]] Count ring_estimate(const RingCounts& counts);

// `at` is a position on the grid of sub-cells.
[[nodiscard]] Decision decide_ring(const Position& at, const RingCounts& counts, Ask ask);

}  // namespace weir::algorithms
