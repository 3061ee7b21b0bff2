// Durations for clients that count in seconds.

#pragma once

#include <cstdint>

#include "weir/time.h"

namespace weir::frontends {

// Rounded up, so that no client retries too early; 0 if the span is negative.
[[nodiscard]] constexpr int64_t seconds_up(Millis span) {
  return span.count() <= 0 ? 0 : (span.count() + 999) / 1000;
}

}  // namespace weir::frontends
