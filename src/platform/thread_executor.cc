#include "platform/thread_executor.h"

#include <chrono>
#include <utility>

#include "platform/own_thread.h"

namespace weir::platform {
namespace {

MonoTime mono_now() {
  return MonoTime(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

void ThreadExecutor::start() {
  thread_ = std::thread([this] {
    on_own_thread() = true;
    run();
  });
}

void ThreadExecutor::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ThreadExecutor::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    ready_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void ThreadExecutor::post_at(MonoTime when, Task task) {
  {
    const std::lock_guard lock(mutex_);
    later_.emplace(when, std::move(task));
  }
  wake_.notify_one();
}

void ThreadExecutor::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!later_.empty() && later_.begin()->first <= mono_now()) {
      ready_.push_back(std::move(later_.begin()->second));
      later_.erase(later_.begin());
    }
    if (!ready_.empty()) {
      Task task = std::move(ready_.front());
      ready_.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // what it holds may post, too
      lock.lock();
      continue;
    }
    if (stopping_) return;
    if (later_.empty()) {
      wake_.wait(lock);
    } else {
      const auto due = later_.begin()->first.time_since_epoch();
      wake_.wait_until(lock,
                       std::chrono::steady_clock::time_point(
                           std::chrono::duration_cast<std::chrono::steady_clock::duration>(due)));
    }
  }
}

}  // namespace weir::platform
