#include "server/supervision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "command_line/exit_codes.h"
#include "command_line/print_error.h"

namespace weir::server {
namespace {

constexpr Millis kTick{500};
constexpr Millis kDrainTick{50};

}  // namespace

StopReason supervise(platform::ProcessSignals& signals, const platform::ServiceManager& manager,
                     const SupervisorHooks& hooks) {
  using platform::ProcessSignal;
  const Millis tick = std::min(kTick, manager.watchdog().value_or(kTick));
  for (;;) {
    switch (signals.wait(tick)) {
      case ProcessSignal::kInterrupt: return {.interrupted = true};
      case ProcessSignal::kTerminate: return {};
      case ProcessSignal::kReload:
        manager.reloading();
        hooks.reload();
        manager.ready();
        break;
      case ProcessSignal::kReopenLogs: hooks.reopen_logs(); break;
      case ProcessSignal::kNone: break;
    }
    if (std::string reason = hooks.reason_to_end(); !reason.empty()) return {.reason = reason};
    hooks.check_files();
    if (manager.watchdog() && hooks.is_alive()) manager.alive();
  }
}

ShutdownEscalation::ShutdownEscalation(platform::ProcessSignals& signals,
                                       std::function<void()> abort_connections) {
  watcher_.start([this, &signals, abort_connections = std::move(abort_connections)] {
    for (int count = 1; !over_.load(std::memory_order_relaxed);) {
      const platform::ProcessSignal signal = signals.wait(kDrainTick);
      if (signal != platform::ProcessSignal::kInterrupt &&
          signal != platform::ProcessSignal::kTerminate) {
        continue;
      }
      if (++count == 2) {
        command_line::print_error(
            "weir: second signal: closing all connections, then flushing the unacknowledged "
            "counts; a third signal exits at once\n");
        abort_connections();
      } else {
        command_line::print_error("weir: third signal: exiting at once\n");
        std::_Exit(command_line::kFailed);
      }
    }
  });
}

ShutdownEscalation::~ShutdownEscalation() {
  over_.store(true, std::memory_order_relaxed);
  watcher_.join();
}

}  // namespace weir::server
