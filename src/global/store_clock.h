// The clock of the store, by which the bridge works.
//
// The wall clock of a process may be hours off. A bridge with such a clock would take the rows of
// other regions for expired, save its position behind them, and so hide them from its whole region.
//
// Only from the thread that runs the sync.

#pragma once

#include <chrono>
#include <optional>

#include "weir/time.h"

namespace weir::global {

class StoreClock {
 public:
  // The store had this time between `began` and `now`.
  void note(WallTime wall, MonoTime began, MonoTime now) {
    if (wall == WallTime{} || now - began >= kMaxDifference) return;
    known_ = {.wall = wall, .mono = now};
  }
  void reset() { known_.reset(); }

  // The time of the store if the wall clock of this process differs from it.
  [[nodiscard]] Instant time(Instant now) const {
    if (!known_) return now;
    const WallTime there =
        known_->wall + std::chrono::floor<Millis>(Nanos(now.mono - known_->mono));
    const Millis apart = there > now.wall ? there - now.wall : now.wall - there;
    return {.wall = apart > kMaxDifference ? there : now.wall, .mono = now.mono};
  }

 private:
  // More than a message takes, and clocks differ.
  static constexpr Millis kMaxDifference{1000};
  std::optional<Instant> known_;
};

}  // namespace weir::global
