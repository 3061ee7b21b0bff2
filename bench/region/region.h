// The two measurements of ./dev bench region that need a program of their own: what an
// embedded limiter says to Redis, and how long a client of a server waits.
//
// Each prints its result as one line of JSON; bench/region/region.mjs makes the figures.

#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::bench {

struct CommandsPlan {
  uint16_t port = 0;     // of redis-server
  int process = 0;       // of redis-server
  size_t keys = 10'000;  // drawn uniformly
  double rate = 1;       // accepts per key and second; 0: as many as the machine can do
  double seconds = 5;    // measured, after the keys are warm
};

struct LatencyPlan {
  uint16_t port = 0;        // the RESP door
  size_t keys = 200;        // drawn uniformly
  size_t connections = 4;   // asked in turn
  double rate = 2'000;      // requests per second, at random distances
  double seconds = 3;       // measured
  double warm_seconds = 1;  // before it, all keys in turn
};

// The exit status: 0, or 1 if what was measured is worth nothing, and why on stderr.
[[nodiscard]] int measure_commands(const CommandsPlan& plan);
[[nodiscard]] int measure_latency(const LatencyPlan& plan);

}  // namespace weir::bench
