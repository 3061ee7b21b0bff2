// Ctrl-C and SIGTERM, as something to wait for.

#pragma once

namespace weir::platform {

// Made before any thread is, so that none of them is interrupted. Also keeps a closed pipe
// from ending the process.
class StopSignals {
 public:
  // Who asked: a person at the terminal with Ctrl-C, or whoever runs the process with SIGTERM.
  enum class Stop { kInterrupt, kTerminate };

  StopSignals();

  // Whether the process was asked to stop. For work that looks now and then instead of waiting.
  [[nodiscard]] bool asked() const;

  // Returns when the process is asked to stop. Asked again, it dies as usual.
  Stop wait();
};

}  // namespace weir::platform
