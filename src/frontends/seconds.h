// How doors tell a span to clients that count in seconds.

#pragma once

#include <cstdint>

#include "weir/time.h"

namespace weir::frontends {

// Rounded up, so that nobody comes back too early; a span that is over is 0.
[[nodiscard]] constexpr int64_t seconds_up(Millis span) {
  return span.count() <= 0 ? 0 : (span.count() + 999) / 1000;
}

}  // namespace weir::frontends
