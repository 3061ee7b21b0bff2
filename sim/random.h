// Pseudo-random numbers that are the same on every machine: one seed, one sequence.

#pragma once

#include <cstdint>

#include "base/split_mix.h"

namespace weir::sim {

// One thread at a time.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() { return base::split_mix(state_); }

  // Low to high, both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }

  bool one_in(int64_t n) { return n > 0 && between(1, n) == 1; }
  bool permille(int64_t part) { return part > 0 && between(1, 1000) <= part; }

  // Above 0, up to 1.
  double uniform() { return static_cast<double>((next() >> 11) + 1) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace weir::sim
