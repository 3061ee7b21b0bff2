#include "server/supervision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "command_line/exit_codes.h"

namespace weir::server {
namespace {

constexpr Millis kTick{500};
constexpr Millis kDrainTick{50};

}  // namespace

End supervise(platform::ProcessSignals& signals, const platform::ServiceManager& manager,
              const Duties& duties) {
  using platform::ProcessSignal;
  const Millis tick = std::min(kTick, manager.watchdog().value_or(kTick));
  for (;;) {
    switch (signals.wait(tick)) {
      case ProcessSignal::kInterrupt: return {.by_hand = true};
      case ProcessSignal::kTerminate: return {};
      case ProcessSignal::kReload:
        manager.reloading();
        duties.reload();
        manager.ready();
        break;
      case ProcessSignal::kReopenLogs: duties.reopen_logs(); break;
      case ProcessSignal::kNone: break;
    }
    if (std::string reason = duties.reason_to_end(); !reason.empty()) return {.reason = reason};
    if (manager.watchdog() && duties.is_alive()) manager.alive();
  }
}

Impatience::Impatience(platform::ProcessSignals& signals, std::function<void()> hurry) {
  watcher_.start([this, &signals, hurry = std::move(hurry)] {
    for (int asked = 1; !over_.load(std::memory_order_relaxed);) {
      const platform::ProcessSignal signal = signals.wait(kDrainTick);
      if (signal != platform::ProcessSignal::kInterrupt &&
          signal != platform::ProcessSignal::kTerminate) {
        continue;
      }
      if (++asked == 2) {
        fmt::print(stderr,
                   "weir: asked again: closing all connections, then telling what was not told; "
                   "once more ends it at once\n");
        hurry();
      } else {
        fmt::print(stderr, "weir: asked a third time: ending at once\n");
        std::_Exit(command_line::kFailed);
      }
    }
  });
}

Impatience::~Impatience() {
  over_.store(true, std::memory_order_relaxed);
  watcher_.join();
}

}  // namespace weir::server
