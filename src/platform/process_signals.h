// The signals by which an operator speaks to a server, as something to wait for.

#pragma once

#include <cstdint>

#include "weir/time.h"

namespace weir::platform {

enum class ProcessSignal : uint8_t {
  kNone,        // the time is over
  kInterrupt,   // Ctrl-C: a person at the terminal asks to stop
  kTerminate,   // SIGTERM: whoever runs the process does
  kReload,      // SIGHUP
  kReopenLogs,  // SIGUSR1
};

// Made before any thread is, so that none of them is interrupted. Also keeps a closed pipe and a
// file at its size limit from ending the process.
class ProcessSignals {
 public:
  ProcessSignals();

  // The next signal, or kNone if none came in time. One thread at a time.
  [[nodiscard]] ProcessSignal wait(Millis most);
};

}  // namespace weir::platform
