#include "platform/process_signals.h"

#include <csignal>
#include <ctime>

namespace weir::platform {
namespace {

sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&set, signal);
  return set;
}

}  // namespace

ProcessSignals::ProcessSignals() {
  const sigset_t set = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

ProcessSignal ProcessSignals::wait(Millis most) {
  const sigset_t set = awaited_signals();
  const timespec timeout{.tv_sec = most.count() / 1000, .tv_nsec = most.count() % 1000 * 1'000'000};
  switch (sigtimedwait(&set, nullptr, &timeout)) {
    case SIGINT: return ProcessSignal::kInterrupt;
    case SIGTERM: return ProcessSignal::kTerminate;
    case SIGHUP: return ProcessSignal::kReload;
    case SIGUSR1: return ProcessSignal::kReopenLogs;
    default: return ProcessSignal::kNone;
  }
}

}  // namespace weir::platform
