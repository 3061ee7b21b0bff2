// The strict sliding window: 16 sub-cells per window; the oldest counts in full until it has left.
//
// A trailing window (now - duration, now] touches at most 17 sub-cells: the one now
// lies in and the 16 before it. Counting all 17 in full can only over-estimate, so no
// trailing window ever contains more than the limit. A saturating client gets 16/17 of the limit.
//
// No overflow: 17 counts of at most 2^40 each sum below 2^45.

#pragma once

#include <array>
#include <cstdint>

#include "algorithms/decision.h"

namespace weir::algorithms {

inline constexpr int kRingParts = 16;              // sub-cells per window
inline constexpr int kRingCells = kRingParts + 1;  // sub-cells that a trailing window can touch

// Rounded up, so that 16 sub-cells never span less than the window.
[[nodiscard]] constexpr Millis ring_width(Millis duration) {
  return Millis((duration.count() + kRingParts - 1) / kRingParts);
}

// Counts of the sub-cells of the trailing window, oldest first; the last contains the position.
using RingCounts = std::array<Count, kRingCells>;

[[nodiscard]] Count ring_estimate(const RingCounts& counts);

// `at` is a position on the grid of sub-cells.
[[nodiscard]] Decision decide_ring(const Position& at, const RingCounts& counts, Ask ask);

}  // namespace weir::algorithms
