// The port through which time enters. Nothing else in Weir asks what time it is.

#pragma once

#include "weir/time.h"

namespace weir {

// Safe from any thread. `mono` never decreases; `wall` may step, and whatever
// remembers a wall time says what happens then.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Instant now() const = 0;
};

// The machine's clock: steady time plus its offset to wall time. A step of the
// machine's wall clock of up to one second is worked off gradually, a larger one
// is adopted at once. Lives as long as the process.
[[nodiscard]] const Clock& system_clock();

}  // namespace weir
