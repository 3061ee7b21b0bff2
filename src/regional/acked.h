// What the origin is known to have of our own count, per cell.

#pragma once

#include "memory/window_cells.h"

namespace weir::limiter {

// The origin has at least this much of ours.
inline void note_acked(const memory::WindowCells& cells, int64_t sequence, Count total) {
  memory::raise_tagged(cells.acked(sequence), sequence, total);
}

// The origin has `mine` of our component. If it once acknowledged more, it has forgotten:
// an empty restart, an old snapshot, a lagging replica, a late write of a dead
// connection. Then we know again how much it has, and the cell must be told anew: true.
[[nodiscard]] inline bool heal_acked(const memory::WindowCells& cells, int64_t sequence,
                                     Count mine) {
  if (memory::mutated(memory::Mutation::kLossNotRepaired)) return false;
  uint64_t seen = cells.acked(sequence).load(std::memory_order_acquire);
  while (memory::Tagged{seen}.count_of(sequence) > mine) {
    if (cells.acked(sequence).compare_exchange_weak(seen, memory::Tagged::make(sequence, mine).word,
                                                    std::memory_order_acq_rel,
                                                    std::memory_order_acquire)) {
      return true;
    }
  }
  return false;
}

}  // namespace weir::limiter
