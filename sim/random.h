// Chance that is the same on every machine: one seed, one sequence of numbers.

#pragma once

#include <cstdint>

namespace weir::sim {

// SplitMix64. One thread at a time.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  // Low to high, both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }

  bool one_in(int64_t n) { return n > 0 && between(1, n) == 1; }

 private:
  uint64_t state_;
};

}  // namespace weir::sim
