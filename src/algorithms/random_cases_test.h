// What the property tests of this room draw from.
//
// A uniform draw from a range of twelve orders of magnitude is never small, and bugs live
// at both ends; so numbers are drawn by their magnitude, the ends themselves now and then.
// Defined apart, as generators are slow to compile.

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

// How a failed test shows a time; found by the type's namespace.
inline void PrintTo(WallTime time, std::ostream* out) {
  *out << time.time_since_epoch().count() << " ms";
}
inline void showValue(WallTime time, std::ostream& out) {
  PrintTo(time, &out);
}

}  // namespace weir

namespace weir::algorithms {

inline constexpr Count kLargestCount = (Count{1} << 46) - 1;
inline constexpr Count kLargestLimit = static_cast<Count>(kMaxLimit);
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

// A cost that may or may not fit `capacity`, and is often near it.
[[nodiscard]] rc::Gen<Count> any_cost(Count capacity);

// A count, more often than not one about as large as the limit: some below it, some
// above, as after a limit was lowered.
[[nodiscard]] rc::Gen<Count> any_count(Count limit);

// One request of some traffic: how long after the last one, and what it asks for.
struct Arrival {
  Millis after{0};
  Count cost = 0;
};
std::ostream& operator<<(std::ostream& out, const Arrival& arrival);

// 200 requests, enough to meet the limit often: bursts at one tick, pauses up to `pause`.
[[nodiscard]] rc::Gen<std::vector<Arrival>> any_traffic(Millis pause, Count limit);

// What was admitted, and when; for asking how much of it any trailing window holds.
class Admissions {
 public:
  void add(WallTime at, Count cost) { all_.push_back({at, cost}); }

  // The sum of what was admitted in (end - duration, end].
  [[nodiscard]] Count in_trailing(WallTime end, Millis duration) const {
    Count sum = 0;
    for (const auto& [at, cost] : all_) sum += at > end - duration && at <= end ? cost : 0;
    return sum;
  }
  // A window that ends between two admissions holds no more than one that ends at the
  // earlier of them, so these are all that matter.
  [[nodiscard]] Count most_in_trailing(Millis duration) const {
    Count most = 0;
    for (const auto& [at, cost] : all_) most = std::max(most, in_trailing(at, duration));
    return most;
  }

 private:
  std::vector<std::pair<WallTime, Count>> all_;
};

}  // namespace weir::algorithms
