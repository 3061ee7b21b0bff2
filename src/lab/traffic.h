// The requests that every algorithm of the lab decides: a built-in shape, or a trace from a file.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weir/request.h"
#include "weir/time.h"

namespace weir::lab {

struct Arrival {
  WallTime at{};
  Count cost = 1;
  uint32_t key = 0;  // index into Traffic::keys
};

// Arrivals in the order of time.
struct Traffic {
  std::string name;
  std::vector<std::string> keys;
  std::vector<Arrival> arrivals;
};

// The limit that applies to each key.
struct Limit {
  Count limit = 100;
  Millis duration{1000};
  Count burst = 100;  // of gcra and token_bucket
};

// The most that the lab decides in one run: with both, it uses less than 1 GB of memory.
inline constexpr size_t kMaxRequests = 5'000'000;
inline constexpr size_t kMaxKeys = 1'000'000;

}  // namespace weir::lab
