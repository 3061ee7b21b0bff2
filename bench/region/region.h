// The measurements of ./dev bench region that use the library: the commands that an embedded
// limiter sends to Redis, the latency that a client of a server sees, and the rate of exact
// decisions on one key.
//
// Each prints its result as one line of JSON for bench/region/region.mjs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "weir/request.h"

namespace weir::bench {

struct CommandsPlan {
  uint16_t port = 0;     // of redis-server
  int process = 0;       // pid of redis-server
  size_t keys = 10'000;  // uniformly distributed
  double rate = 1;       // admissions per key and second; 0: maximum
  double seconds = 5;    // of the measurement, after warm-up
  bool smoke = false;    // almost no warm-up: the result says only that all works
};

struct LatencyPlan {
  uint16_t port = 0;        // of the RESP listener
  size_t keys = 200;        // uniformly distributed
  size_t connections = 4;   // used in turn
  double rate = 2'000;      // requests per second, with random intervals
  double seconds = 3;       // of the measurement
  double warm_seconds = 1;  // of warm-up, all keys in turn
};

struct ExactPlan {
  uint16_t port = 0;  // of redis-server
  std::string key = "hot";
  Algorithm algorithm = Algorithm::kSlidingWindow;
  Count limit = 10'000'000;  // per minute
  size_t callers = 64;
  uint64_t requests = 100'000;
};

// Return the exit status: 0, or 1 with a message on standard error if the measurement failed.
[[nodiscard]] int measure_commands(const CommandsPlan& plan);
[[nodiscard]] int measure_latency(const LatencyPlan& plan);
[[nodiscard]] int measure_exact(const ExactPlan& plan);

}  // namespace weir::bench
