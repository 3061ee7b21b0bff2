// The signals that control a server, as events to wait for.

#pragma once

#include <cstdint>

#include "weir/time.h"

namespace weir::platform {

enum class ProcessSignal : uint8_t {
  kNone,        // timeout
  kInterrupt,   // SIGINT, Ctrl-C: a person at the terminal stops the server
  kTerminate,   // SIGTERM: a supervisor stops the server
  kReload,      // SIGHUP
  kReopenLogs,  // SIGUSR1
};

// Construct it before any thread starts, so that all threads block these signals. Also ignores
// SIGPIPE and SIGXFSZ, which would terminate the process.
class ProcessSignals {
 public:
  ProcessSignals();

  // The next signal, or kNone after `most`. One thread at a time.
  [[nodiscard]] ProcessSignal wait(Millis most);
};

}  // namespace weir::platform
