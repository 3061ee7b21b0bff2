// The port that provides the time. No other part of Weir reads a clock.

#pragma once

#include "weir/export.h"
#include "weir/time.h"

namespace weir {

// Safe from any thread. `mono` never decreases. `wall` may step in both directions.
class WEIR_EXPORT Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Instant now() const = 0;
};

// The clock of the operating system: steady time plus its offset to wall time. A step of the
// system's wall clock of up to one second is smoothed; a larger step is adopted at once. The
// reference stays valid until the process ends.
[[nodiscard]] WEIR_EXPORT const Clock& system_clock();

}  // namespace weir
