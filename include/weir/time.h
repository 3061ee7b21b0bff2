// Two kinds of time, which do not mix.
//
// Wall time selects windows and is comparable between machines; monotonic time measures
// waiting. Subtracting one from the other does not compile, because the difference has no
// meaning after a clock step. Both are integers.

#pragma once

#include <chrono>
#include <cstdint>

namespace weir {

using Millis = std::chrono::milliseconds;
using Nanos = std::chrono::nanoseconds;

// Unix time; one tick is 1 ms, the resolution of every decision.
using WallTime = std::chrono::time_point<struct WallTimeTag, Millis>;

// Time since an unspecified start; it never steps.
using MonoTime = std::chrono::time_point<struct MonoTimeTag, Nanos>;

// Both readings of one moment.
struct Instant {
  WallTime wall;
  MonoTime mono;
};

// Conversion to and from the standard library's Unix time. from_system_time() rounds down to
// the millisecond; to_system_time(from_system_time(t)) is t at a resolution of 1 ms.
[[nodiscard]] constexpr std::chrono::time_point<std::chrono::system_clock, Millis> to_system_time(
    WallTime time) {
  return std::chrono::time_point<std::chrono::system_clock, Millis>(time.time_since_epoch());
}
template <typename Duration>
[[nodiscard]] constexpr WallTime from_system_time(
    std::chrono::time_point<std::chrono::system_clock, Duration> time) {
  return WallTime(std::chrono::floor<Millis>(time.time_since_epoch()));
}

}  // namespace weir
