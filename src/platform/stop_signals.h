// SIGINT and SIGTERM, as events to wait for.

#pragma once

namespace weir::platform {

// Construct it before any thread starts, so that all threads block these signals. Also ignores
// SIGPIPE, which would terminate the process.
class StopSignals {
 public:
  StopSignals();

  // Whether a signal has arrived. For work that polls instead of waiting.
  [[nodiscard]] bool stop_requested() const;

  // Returns when a signal arrives. A second signal terminates the process.
  void wait();
};

}  // namespace weir::platform
