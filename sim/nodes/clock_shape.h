// How the wall clock of a node differs from the simulated time.

#pragma once

#include <cstdint>
#include <string>

#include "weir/time.h"

namespace weir::sim {

struct ClockShape {
  enum class Kind : uint8_t {
    kSteady,    // always off by `by`
    kDrifting,  // gains `parts_per_million`
    kStepping,  // set every `every`, to an offset of at most `by` in either direction
    kSawtooth,  // gains `parts_per_million` and is corrected every `every`
  };
  Kind kind = Kind::kSteady;
  std::string where = {};  // a region, or region/node counted from 0; empty: every node
  Millis by{0};
  Millis every{10'000};
  int64_t parts_per_million = 0;
};

}  // namespace weir::sim
