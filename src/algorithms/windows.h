// Fixed and sliding windows over the counts of two adjacent cells.
//
// Pure functions of counts and time. The estimate never falls when a count rises, and rises by at
// most as much (tested); the bound on over-admission after a merge follows from that.
//
// No overflow: a count is below 2^46 (three parts of 44 bits each), a limit and a cost
// below 2^40, a width below 2^32; sums stay below 2^48 and products go through
// mul_div, which is 128 bits wide.

#pragma once

#include "algorithms/decision.h"
#include "base/wide.h"

namespace weir::algorithms {

static_assert(kMaxLimit < (Count{1} << 40));
static_assert(kMaxDuration.count() < (int64_t{1} << 32));

struct WindowCounts {
  Count current = 0;
  Count previous = 0;
};

// The weight of the previous window: its count times the part of it that a window of full width
// ending now would cover, rounded down. In full at offset 0.
[[nodiscard]] inline Count carried_over(const Position& at, Count previous) {
  if (previous == 0) return 0;
  return base::mul_div(previous, static_cast<uint64_t>((at.width - at.offset).count()),
                       static_cast<uint64_t>(at.width.count()));
}

// The usage before a request, without its cost.
[[nodiscard]] inline Count sliding_estimate(const Position& at, const WindowCounts& counts) {
  return counts.current + carried_over(at, counts.previous);
}

[[nodiscard]] inline Count fixed_estimate(const WindowCounts& counts) {
  return counts.current;
}

// The first instant at which the request would pass if no other request arrived. Only for a request
// that does not pass now and whose cost fits the capacity. Never after the end of the next window.
// By value: its callers keep these in registers.
[[nodiscard]] WallTime sliding_retry_at(Position at, WindowCounts counts, Ask ask);

// The decision on an estimate, without the retry time.
inline void decide_window(const Position& at, Count estimate, Ask ask, Decision& decision) {
  const bool admitted = estimate + ask.cost <= ask.capacity;
  decision.outcome = admitted                  ? Outcome::kAdmitted
                     : ask.cost > ask.capacity ? Outcome::kNever
                                               : Outcome::kDenied;
  decision.remaining = base::saturating_sub(ask.capacity, estimate) - (admitted ? ask.cost : 0);
  decision.reset = at.end();
  decision.retry_at.reset();
}

[[nodiscard]] inline Decision decide_sliding(const Position& at, const WindowCounts& counts,
                                             Ask ask) {
  Decision decision;
  decide_window(at, sliding_estimate(at, counts), ask, decision);
  if (decision.outcome == Outcome::kDenied) decision.retry_at = sliding_retry_at(at, counts, ask);
  return decision;
}

[[nodiscard]] inline Decision decide_fixed(const Position& at, const WindowCounts& counts,
                                           Ask ask) {
  Decision decision;
  decide_window(at, fixed_estimate(counts), ask, decision);
  if (decision.outcome == Outcome::kDenied) decision.retry_at = at.end();
  return decision;
}

}  // namespace weir::algorithms
