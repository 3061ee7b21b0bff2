// Waiting for what other processes and threads do in their own time.

#pragma once

#include <chrono>
#include <thread>

namespace weir::servers {

// Looks every millisecond until it is so; false if it is not after `patience`. Without one,
// a test that waits in vain ends by its timeout.
template <typename Condition>
bool await(const Condition& condition,
           std::chrono::milliseconds patience = std::chrono::milliseconds::max()) {
  constexpr std::chrono::milliseconds kPause{1};
  for (; !condition(); patience -= kPause) {
    if (patience < kPause) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace weir::servers
