// A clock that advances one tick with every reading in any thread, so that threads that share it
// are soon on different sides of a window boundary.

#pragma once

#include <atomic>

#include "weir/clock.h"

namespace weir::doubles {

// Safe from any thread.
class TickingClock final : public Clock {
 public:
  static constexpr Instant kStart{.wall = WallTime(Millis(1'699'999'200'000)),
                                  .mono = MonoTime(Nanos(2))};

  [[nodiscard]] Instant now() const override {
    const Millis elapsed(ticks_.fetch_add(1));
    return {.wall = kStart.wall + elapsed, .mono = kStart.mono + elapsed};
  }

 private:
  mutable std::atomic<int64_t> ticks_{0};
};

}  // namespace weir::doubles
