// What the main thread of a server does while others serve: it waits for the signals of its
// operator and tells the service manager that all is well.

#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "platform/process_signals.h"
#include "platform/service_manager.h"
#include "platform/thread_group.h"

namespace weir::server {

// Each is called on the thread that supervises.
struct SupervisorHooks {
  std::function<void()> reload;
  std::function<void()> reopen_logs;
  std::function<bool()> is_alive;              // whether the threads that serve make progress
  std::function<std::string()> reason_to_end;  // nothing: there is none
};

// Why a server ends.
struct StopReason {
  std::string reason = {};   // nothing: it was asked to
  bool interrupted = false;  // with Ctrl-C
};

// Returns when the process is asked to stop or must end.
[[nodiscard]] StopReason supervise(platform::ProcessSignals& signals,
                                   const platform::ServiceManager& manager,
                                   const SupervisorHooks& hooks);

// While a server drains: who asks a second time wants it to end soon, who asks a third time at
// once, whatever is lost. Waits on a thread of its own until it is destroyed.
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
