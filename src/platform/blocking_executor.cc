#include "platform/blocking_executor.h"

#include <chrono>
#include <utility>

namespace weir::platform {
namespace {

MonoTime steady_mono() {
  return MonoTime(std::chrono::steady_clock::now().time_since_epoch());
}

std::chrono::steady_clock::time_point to_steady_point(MonoTime time) {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(time.time_since_epoch()));
}

}  // namespace

MonoTime BlockingExecutor::steady_time_of(MonoTime when) const {
  return steady_mono() + (when - clock_.now().mono);
}

void BlockingExecutor::post(Task task) {
  const base::MutexLock lock(mutex_);
  if (closed_) return;
  ready_.push_back(std::move(task));
  // Under the lock: the waiting thread may destroy *this as soon as it is released.
  posted_.notify_one();
}

void BlockingExecutor::post_at(MonoTime when, Task task) {
  const MonoTime due = steady_time_of(when);
  const base::MutexLock lock(mutex_);
  if (closed_) return;
  later_.emplace(due, std::move(task));
  posted_.notify_one();
}

bool BlockingExecutor::wait(MonoTime deadline) {
  const MonoTime give_up = steady_time_of(deadline);
  std::vector<Task> running;
  mutex_.lock();
  while (!finished_) {
    const MonoTime now = steady_mono();
    while (!later_.empty() && later_.begin()->first <= now) {
      ready_.push_back(std::move(later_.begin()->second));
      later_.erase(later_.begin());
    }
    if (!ready_.empty()) {
      running.swap(ready_);
      mutex_.unlock();
      for (const Task& task : running) task();
      running.clear();
      mutex_.lock();
    } else if (!later_.empty()) {
      // Timers run even if they are late: other threads may wait for their effect.
      posted_.wait_until(mutex_, to_steady_point(later_.begin()->first));
    } else if (now < give_up) {
      posted_.wait_until(mutex_, to_steady_point(give_up));
    } else {
      break;
    }
  }
  closed_ = true;
  // Destroyed without the lock: a task may own the last reference to something that posts.
  std::multimap<MonoTime, Task> later = std::exchange(later_, {});
  running.swap(ready_);
  mutex_.unlock();
  return finished_;
}

}  // namespace weir::platform
