// SplitMix64: pseudo-random numbers from a seed.
//
// A full-period generator with well mixed output. Every step is bijective, so one number reveals
// all others: do not use it for secrets whose output is visible.

#pragma once

#include <cstdint>

namespace weir::base {

// The next number; `state` begins as the seed. One thread at a time for each state.
constexpr uint64_t split_mix(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace weir::base
