// The schedules and formulas of a published comparison of limiters, repeated in virtual time.
//
// The comparison ran on real clocks, so some of its totals depend on when its test ended. Here
// every schedule is stated to the tick.

#pragma once

#include <string>
#include <vector>

#include "lab/comparison.h"
#include "lab/traffic.h"

namespace weir::lab {

// What a saturating client gets: it sends requests at every tick of the schedule until one is
// denied.
struct Saturation {
  Count at_once = 0;   // at the first tick
  Count admitted = 0;  // in all
  friend bool operator==(const Saturation&, const Saturation&) = default;
};

// Both ends included.
struct Schedule {
  int64_t from_ms = 0;
  int64_t to_ms = 3000;
};

// 10 a second with a burst of 10.
inline constexpr Limit kPublishedLimit = {.limit = 10, .duration = Millis(1000), .burst = 10};
// 3 s from the start of a window, and from 0.6 of a window.
inline constexpr Schedule kFromStart = {.from_ms = 0, .to_ms = 3000};
inline constexpr Schedule kFromPhase = {.from_ms = 600, .to_ms = 3600};

// One way to write GCRA.
struct GcraForm {
  std::string tolerance;   // "burst x T"
  std::string comparison;  // "now >= TAT - tolerance"
  Saturation result{};
};
// The four forms of the comparison, then Weir.
[[nodiscard]] std::vector<GcraForm> gcra_forms(Schedule schedule);

// What the formula without validation admits with a burst of 0, at kFromStart.
[[nodiscard]] Saturation burst_of_zero();

// The library's answer to a burst of 0.
[[nodiscard]] std::string burst_of_zero_error();

// An algorithm of Weir at kPublishedLimit.
[[nodiscard]] Saturation saturate(Algorithm algorithm, Schedule schedule);

// The two-cell estimate that keeps its fraction: current + previous x (1 - elapsed / window). Weir
// rounds the second term down.
[[nodiscard]] Saturation saturate_with_fraction(Schedule schedule);

// 99 requests a second before a minute ends and 100 a second after, at 100 a minute.
[[nodiscard]] Traffic two_minutes();
inline constexpr Limit kTwoMinutesLimit = {.limit = 100, .duration = Millis(60'000), .burst = 100};

// The error of sliding_window on the shape `skewed`, where the limit is `percent` of the mean rate
// of the busiest key.
struct HeadroomError {
  uint64_t percent = 0;
  size_t requests = 0;
  Differences differences{};
};
[[nodiscard]] std::vector<HeadroomError> errors_by_headroom();

}  // namespace weir::lab
