// Two kinds of time, which do not mix.
//
// Wall time picks windows and crosses machines; monotonic time measures waiting.
// Subtracting one from the other does not compile, because the answer would mean
// nothing after a clock step. Both are integers.

#pragma once

#include <chrono>
#include <cstdint>

namespace weir {

using Millis = std::chrono::milliseconds;
using Nanos = std::chrono::nanoseconds;

// Unix time; one tick is 1 ms, the resolution of every decision.
using WallTime = std::chrono::time_point<struct WallTimeTag, Millis>;

// Time since some start that never steps.
using MonoTime = std::chrono::time_point<struct MonoTimeTag, Nanos>;

// Both readings of one moment. Taken once, at the door, and handed down.
struct Instant {
  WallTime wall;
  MonoTime mono;
};

}  // namespace weir
