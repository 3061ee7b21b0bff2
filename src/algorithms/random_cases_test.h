// Generators for the property tests of this module.
//
// A uniform draw from a range of twelve orders of magnitude is never small, and most bugs are at
// both ends; so numbers are drawn by their magnitude, and sometimes the ends themselves. Defined in
// a .cc file, because generators are slow to compile.

#pragma once

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <utility>
#include <vector>

#include "algorithms/decision.h"

namespace weir {

// Prints a time in a failed test; found by the namespace of the type.
inline void PrintTo(WallTime time, std::ostream* out) {
  *out << time.time_since_epoch().count() << " ms";
}
inline void showValue(WallTime time, std::ostream& out) {
  PrintTo(time, &out);
}

}  // namespace weir

namespace weir::algorithms {

inline constexpr Count kLargestCount = (Count{1} << 46) - 1;
inline constexpr Count kLargestLimit = kMaxLimit;
inline constexpr Millis kSecond{1000};

[[nodiscard]] inline WallTime tick(int64_t unix_ms) {
  return WallTime(Millis(unix_ms));
}

// A number from `least` to `most`, both included.
[[nodiscard]] rc::Gen<uint64_t> between(uint64_t least, uint64_t most);
[[nodiscard]] rc::Gen<Millis> millis_between(Millis least, Millis most);
[[nodiscard]] rc::Gen<Millis> any_duration();

// From 1970 to 2100.
[[nodiscard]] rc::Gen<WallTime> any_time();

// A cost below or above `capacity`, often near it.
[[nodiscard]] rc::Gen<Count> any_cost(Count capacity);

// A count, often about as large as the limit: some below it, some above, as after a limit was
// lowered.
[[nodiscard]] rc::Gen<Count> any_count(Count limit);

// One request of generated traffic: the time since the last one, and its cost.
struct Arrival {
  Millis after{0};
  Count cost = 0;
};
std::ostream& operator<<(std::ostream& out, const Arrival& arrival);

// 200 requests, enough to meet the limit often: bursts at one tick, pauses up to `pause`.
[[nodiscard]] rc::Gen<std::vector<Arrival>> any_traffic(Millis pause, Count limit);

// Records admissions and returns how many of them are in a trailing window.
class Admissions {
 public:
  void add(WallTime at, Count cost) { all_.push_back({at, cost}); }

  // The sum of what was admitted in (end - duration, end].
  [[nodiscard]] Count in_trailing(WallTime end, Millis duration) const {
    Count sum = 0;
    for (const auto& [at, cost] : all_) sum += at > end - duration && at <= end ? cost : 0;
    return sum;
  }
  // A window that ends between two admissions contains no more than one that ends at the earlier
  // of them, so only windows that end at an admission are checked.
  [[nodiscard]] Count most_in_trailing(Millis duration) const {
    Count most = 0;
    for (const auto& [at, cost] : all_) most = std::max(most, in_trailing(at, duration));
    return most;
  }

 private:
  std::vector<std::pair<WallTime, Count>> all_;
};

}  // namespace weir::algorithms
