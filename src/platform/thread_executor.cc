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
    const base::MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ThreadExecutor::drop_tasks() {
  std::deque<Task> ready;
  std::multimap<MonoTime, Task> later;
  // Destroyed without the lock: a destructor may post.
  const base::MutexLock lock(mutex_);
  ready.swap(ready_);
  later.swap(later_);
}

// Notifies under the lock: the task may tell the owner, who may destroy the executor then.
void ThreadExecutor::post(Task task) {
  const base::MutexLock lock(mutex_);
  ready_.push_back(std::move(task));
  wake_.notify_one();
}

void ThreadExecutor::post_at(MonoTime when, Task task) {
  const base::MutexLock lock(mutex_);
  later_.emplace(when, std::move(task));
  wake_.notify_one();
}

Task ThreadExecutor::next_task() {
  const base::MutexLock lock(mutex_);
  for (;;) {
    while (!later_.empty() && later_.begin()->first <= mono_now()) {
      ready_.push_back(std::move(later_.begin()->second));
      later_.erase(later_.begin());
    }
    if (!ready_.empty()) {
      Task task = std::move(ready_.front());
      ready_.pop_front();
      return task;
    }
    if (stopping_) return nullptr;
    if (later_.empty()) {
      wake_.wait(mutex_);
    } else {
      const auto due = later_.begin()->first.time_since_epoch();
      wake_.wait_until(mutex_,
                       std::chrono::steady_clock::time_point(
                           std::chrono::duration_cast<std::chrono::steady_clock::duration>(due)));
    }
  }
}

// A task and its captures are destroyed before the next one is taken, because a destructor may
// post, too.
void ThreadExecutor::run() {
  while (const Task task = next_task()) task();
}

}  // namespace weir::platform
