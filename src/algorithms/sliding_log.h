// The sliding log: one stamp per unit of cost, exact.
//
// Units are numbered in the order admitted and their stamps never decrease. The unit
// numbered n may be admitted exactly when the unit n - limit has left the trailing
// window (now - duration, now]: then any limit + 1 consecutive units span more than a
// window. So the outcome depends on one stamp, not on the whole log, and `remaining` on a binary
// search.
//
// The caller passes the log as a function from "how many units back" to a stamp, because it stores
// the log in atomics. No value here exceeds a limit plus a cost.

#pragma once

#include "algorithms/decision.h"
#include "base/wide.h"

namespace weir::algorithms {

// Stamp of a unit that does not exist; it is outside every window.
inline constexpr WallTime kNoStamp{Millis(-1)};

// Whether a stamp is inside the trailing window that ends now.
[[nodiscard]] inline bool in_window(WallTime now, Millis duration, WallTime stamp) {
  return stamp != kNoStamp && stamp > now - duration;
}

// Units in the window, at most `most`: stamps grow with their number, so a binary search finds the
// border. `stamp_back(k)` is the stamp of the k-th newest unit, k >= 1.
template <typename StampBack>
[[nodiscard]] Count units_in_window(WallTime now, Millis duration, Count most,
                                    const StampBack& stamp_back) {
  Count inside = 0;          // the inside-th newest is in the window
  Count outside = most + 1;  // the outside-th newest is not, or is not needed
  while (outside - inside > 1) {
    const Count middle = inside + (outside - inside) / 2;
    (in_window(now, duration, stamp_back(middle)) ? inside : outside) = middle;
  }
  return inside;
}

// `now` is not before the newest stamp. The log must reach back capacity + 1 units.
template <typename StampBack>
[[nodiscard]] Decision decide_log(WallTime now, Millis duration, Ask ask,
                                  const StampBack& stamp_back) {
  Decision decision;
  const WallTime newest = stamp_back(1);
  const WallTime recovered = in_window(now, duration, newest) ? newest + duration : now;
  if (ask.cost > ask.capacity) {
    decision.outcome = Outcome::kNever;
    decision.remaining = ask.capacity - units_in_window(now, duration, ask.capacity, stamp_back);
    decision.reset = recovered;
    return decision;
  }
  // After `cost` more units, the capacity + 1 newest must not all be in the window: the unit that
  // is now capacity - cost + 1 back must have left it.
  const WallTime must_have_left = stamp_back(ask.capacity - ask.cost + 1);
  const Count used = units_in_window(now, duration, ask.capacity, stamp_back);
  if (!in_window(now, duration, must_have_left)) {
    decision.outcome = Outcome::kAdmitted;
    decision.remaining = ask.capacity - used - ask.cost;
    decision.reset = ask.cost > 0 ? now + duration : recovered;
    return decision;
  }
  decision.outcome = Outcome::kDenied;
  decision.remaining = ask.capacity - used;
  decision.reset = recovered;
  decision.retry_at = must_have_left + duration;
  return decision;
}

}  // namespace weir::algorithms
