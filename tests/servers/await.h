// Polling for a condition that another process or thread brings about.

#pragma once

#include <chrono>
#include <thread>

namespace weir::servers {

// Polls every millisecond. Returns false if the condition is still false after `timeout`; the
// default waits until the timeout of the test.
template <typename Condition>
bool await(const Condition& condition,
           std::chrono::milliseconds timeout = std::chrono::milliseconds::max()) {
  constexpr std::chrono::milliseconds kPause{1};
  for (; !condition(); timeout -= kPause) {
    if (timeout < kPause) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace weir::servers
