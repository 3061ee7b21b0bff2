// What each process may accept by itself while the origin is lost, so that all together stay
// within the limit.
//
// What the origin acknowledged is known to all, and is the same for all: they divide what that
// leaves. Everything a process accepted beyond it, before the loss or after, in this window or
// the last, must fit its share. So with shares that add up to what was left, the region keeps to
// the limit for as long as the loss lasts (tested), with nothing to agree on but how many they
// are and who is which.
//
// Pure.

#pragma once

#include "algorithms/windows.h"
#include "base/wide.h"

namespace weir::limiter {

// One window, as one process knows it.
struct Acknowledged {
  Count own = 0;     // accepted by this process
  Count acked = 0;   // of that, known to the origin
  Count others = 0;  // what the origin had of all the others
  [[nodiscard]] Count total() const { return acked + others; }
  [[nodiscard]] Count beyond() const { return base::saturating_sub(own, acked); }
};

struct Fleet {
  uint32_t nodes = 1;
  uint32_t rank = 0;
};

// Parts of an amount that add up to it.
[[nodiscard]] inline Count share_of(Count amount, const Fleet& fleet) {
  return amount / fleet.nodes + (fleet.rank < amount % fleet.nodes ? 1 : 0);
}

// The most that this process may have accepted in the current window.
[[nodiscard]] inline Count own_most(const algorithms::Position& at, Algorithm algorithm,
                                    Count limit, const Acknowledged& current,
                                    const Acknowledged& last, const Fleet& fleet) {
  const bool sliding = algorithm == Algorithm::kSlidingWindow;
  const Count carried = sliding ? algorithms::carried_over(at, last.total()) : 0;
  // Rounded up: the parts of many, rounded down, would be less than their sum.
  const Count beyond =
      sliding && last.beyond() > 0 ? algorithms::carried_over(at, last.beyond()) + 1 : 0;
  const Count left = base::saturating_sub(limit, current.total() + carried);
  return current.acked + base::saturating_sub(share_of(left, fleet), beyond);
}

}  // namespace weir::limiter
