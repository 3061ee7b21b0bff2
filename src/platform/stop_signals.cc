#include "platform/stop_signals.h"

#include <csignal>

namespace weir::platform {
namespace {

sigset_t stopping() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stopping();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool StopSignals::stop_requested() const {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1;
}

void StopSignals::wait() {
  const sigset_t set = stopping();
  int signal = 0;
  sigwait(&set, &signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace weir::platform
