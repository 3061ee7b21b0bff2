#include "algorithms/strict_ring.h"

#include <numeric>

#include "base/wide.h"

namespace weir::algorithms {
namespace {

// The instant from which the i-th oldest sub-cell no longer counts.
WallTime leaves_at(const Position& at, int i) {
  return WallTime((at.sequence + i + 1) * at.width);
}

// The instant from which none of the sub-cells counts.
WallTime recovered_at(const Position& at, const RingCounts& counts) {
  for (int i = kRingCells - 1; i >= 0; --i) {
    if (counts[i] != 0) return leaves_at(at, i);
  }
  return at.start() + at.offset;
}

// The cost fits the capacity, so it passes at the latest when all sub-cells have left.
WallTime first_passing(const Position& at, const RingCounts& counts, Count used, Ask ask) {
  for (int i = 0; i < kRingCells; ++i) {
    used -= counts[i];
    if (used + ask.cost <= ask.capacity) return leaves_at(at, i);
  }
  return leaves_at(at, kRingCells - 1);
}

}  // namespace

Count ring_estimate(const RingCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), Count{0});
}

Decision decide_ring(const Position& at, const RingCounts& counts, Ask ask) {
  const Count used = ring_estimate(counts);
  Decision decision;
  if (used + ask.cost <= ask.capacity) {
    decision.outcome = Outcome::kAdmitted;
    decision.remaining = ask.capacity - used - ask.cost;
    decision.reset = ask.cost > 0 ? leaves_at(at, kRingCells - 1) : recovered_at(at, counts);
    return decision;
  }
  decision.remaining = base::saturating_sub(ask.capacity, used);
  decision.reset = recovered_at(at, counts);
  if (ask.cost > ask.capacity) {
    decision.outcome = Outcome::kNever;
    return decision;
  }
  decision.outcome = Outcome::kDenied;
  decision.retry_at = first_passing(at, counts, used, ask);
  return decision;
}

}  // namespace weir::algorithms
