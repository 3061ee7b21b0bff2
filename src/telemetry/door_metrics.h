// What the doors of a server count about themselves and about the answers they give.
//
// Safe from any thread.

#pragma once

#include <array>
#include <cstdint>

#include "telemetry/counters.h"
#include "weir/time.h"
#include "weir/verdict.h"

namespace weir::telemetry {

// A decision by outcome and basis.
enum class Decided : uint8_t { kCount = 9 };

[[nodiscard]] constexpr Decided decided(Outcome outcome, Basis basis) {
  return static_cast<Decided>(3 * static_cast<int>(outcome) + static_cast<int>(basis));
}

enum class DoorStat : uint8_t {
  kOpened,  // connections
  kClosed,
  kRefused,   // connections beyond the most allowed
  kTimedOut,  // connections closed for silence or slowness
  kRequests,
  kNanos,  // what all requests took together
  kBad,    // requests that could not be understood or were not allowed
  kCount,
};

// How long requests took, from the time they were read to the time they were answered.
enum class LatencyBucket : uint8_t { kCount = 16 };

// Upper ends in microseconds; the last bucket has none.
inline constexpr std::array<int64_t, 15> kLatencyEnds{
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10'000, 50'000, 100'000};

struct DoorMetrics {
  Counters<Decided> decisions;
  Counters<DoorStat> stats;
  Counters<LatencyBucket> latency;

  void add_latency(Nanos each, uint64_t requests) {
    size_t bucket = 0;
    while (bucket < kLatencyEnds.size() && each.count() > kLatencyEnds[bucket] * 1000) ++bucket;
    latency.add(static_cast<LatencyBucket>(bucket), requests);
    stats.add(DoorStat::kNanos, static_cast<uint64_t>(each.count()) * requests);
    stats.add(DoorStat::kRequests, requests);
  }
};

}  // namespace weir::telemetry
