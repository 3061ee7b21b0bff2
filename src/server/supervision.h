// The main thread of a server: waits for signals and reports to the service manager.

#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "platform/process_signals.h"
#include "platform/service_manager.h"
#include "platform/thread_group.h"

namespace weir::server {

// All are called on the supervising thread.
struct SupervisorHooks {
  std::function<void()> reload;
  std::function<void()> reopen_logs;
  std::function<bool()> is_alive;              // whether the workers make progress
  std::function<std::string()> reason_to_end;  // empty: none
  std::function<void()> check_files;           // twice a second
};

// Why a server stops.
struct StopReason {
  std::string reason = {};   // empty: a signal
  bool interrupted = false;  // by Ctrl-C
};

// Returns on a signal to stop, or on a reason to end.
[[nodiscard]] StopReason supervise(platform::ProcessSignals& signals,
                                   const platform::ServiceManager& manager,
                                   const SupervisorHooks& hooks);

// Handles further signals during a drain, on its own thread until it is destroyed: the second
// signal aborts all connections, the third ends the process at once.
class ShutdownEscalation {
 public:
  ShutdownEscalation(platform::ProcessSignals& signals, std::function<void()> abort_connections);
  ~ShutdownEscalation();
  ShutdownEscalation(const ShutdownEscalation&) = delete;
  ShutdownEscalation& operator=(const ShutdownEscalation&) = delete;

 private:
  std::atomic<bool> over_{false};
  platform::ThreadGroup watcher_;
};

}  // namespace weir::server
