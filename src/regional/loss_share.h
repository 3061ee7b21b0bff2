// How much each process may accept by itself while the origin is lost, so that all processes
// together keep to the limit.
//
// All processes know the same acknowledged counts and divide the remainder of the limit into equal
// shares. All that a process accepted beyond its acknowledged count, before or after the loss, in
// this window or the last, must fit its share. The shares add up to the remainder, so the region
// keeps to the limit for as long as the loss lasts (tested). The processes only need to agree on
// their number and their ranks.
//
// Pure.

#pragma once

#include "algorithms/windows.h"
#include "base/wide.h"

namespace weir::regional {

// One window, as one process knows it.
struct Acknowledged {
  Count own = 0;     // accepted by this process
  Count acked = 0;   // of that, acknowledged by the origin
  Count others = 0;  // the origin's count of all other processes
  [[nodiscard]] Count total() const { return acked + others; }
  [[nodiscard]] Count unacked() const { return base::saturating_sub(own, acked); }
};

struct Fleet {
  uint32_t nodes = 1;
  uint32_t rank = 0;
};

// The shares of all ranks add up to the amount.
[[nodiscard]] inline Count share_of(Count amount, const Fleet& fleet) {
  return amount / fleet.nodes + (fleet.rank < amount % fleet.nodes ? 1 : 0);
}

// The largest own count that this process may reach in the current window.
[[nodiscard]] inline Count max_own_count(const algorithms::Position& at, Algorithm algorithm,
                                         Count limit, const Acknowledged& current,
                                         const Acknowledged& last, const Fleet& fleet) {
  const bool sliding = algorithm == Algorithm::kSlidingWindow;
  const Count carried = sliding ? algorithms::carried_over(at, last.total()) : 0;
  // Rounded up: if each of many processes rounded down, their sum would be too small.
  const Count carried_unacked =
      sliding && last.unacked() > 0 ? algorithms::carried_over(at, last.unacked()) + 1 : 0;
  const Count left = base::saturating_sub(limit, current.total() + carried);
  return current.acked + base::saturating_sub(share_of(left, fleet), carried_unacked);
}

}  // namespace weir::regional
