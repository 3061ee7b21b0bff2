// Threads that are started together and joined together.

#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "platform/own_thread.h"

namespace weir::platform {

// One thread at a time.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  ~ThreadGroup() { join(); }
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  void start(std::function<void()> body) {
    threads_.emplace_back([body = std::move(body)] {
      on_own_thread() = true;
      body();
    });
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  static void sleep(std::chrono::milliseconds span) { std::this_thread::sleep_for(span); }
  [[nodiscard]] static unsigned cores() {
    const unsigned count = std::thread::hardware_concurrency();
    return count == 0 ? 1 : count;
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace weir::platform
