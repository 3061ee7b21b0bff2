// What the origin has of our own count, per cell. It may be more than the own count: a step granted
// it to a request that did not wait.

#pragma once

#include <algorithm>

#include "memory/tuple_store.h"
#include "memory/window_cells.h"

namespace weir::regional {

// The origin has at least this much of our count.
inline void note_acked(const memory::WindowCells& cells, int64_t sequence, Count total) {
  memory::raise_tagged(cells.acked(sequence), sequence, total);
}

// The origin has `mine` of our component. If it acknowledged more before, it lost counts: an empty
// restart, an old snapshot, a lagging replica, a late write of a dead connection. Then this lowers
// the acknowledged count and returns true: the caller queues the cell for another replay.
//
// Where the origin acknowledged more than the own count, it may have that still, since the reply
// may be older than the last one: so what a step granted stays uncertain.
[[nodiscard]] inline bool heal_acked(memory::TupleStore& tuples, const memory::Tuple& tuple,
                                     int64_t sequence, Count mine, MonoTime now) {
  if (memory::mutated(memory::Mutation::kLossNotRepaired)) return false;
  const memory::WindowCells cells(tuple);
  uint64_t seen = cells.acked(sequence).load(std::memory_order_acquire);
  do {
    if (memory::Tagged{seen}.count_of(sequence) <= mine) return false;
  } while (!cells.acked(sequence).compare_exchange_weak(
      seen, memory::Tagged::make(sequence, mine).word, std::memory_order_acq_rel,
      std::memory_order_acquire));
  const Count before = memory::Tagged{seen}.count_of(sequence);
  const Count known = std::max(memory::count_in(cells.own(sequence), sequence), mine);
  if (before > known) static_cast<void>(tuples.uncertain.add(tuple, sequence, before - known, now));
  return true;
}

}  // namespace weir::regional
