// An executor with its own thread.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <thread>

#include "base/mutex.h"
#include "weir/executor.h"

namespace weir::platform {

// Safe from any thread. stop() runs the tasks that were posted without a time, drops those that
// were posted for later, and joins the thread.
class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor() = default;
  ~ThreadExecutor() override { stop(); }

  void start();
  void stop();
  // Drops the tasks that wait.
  void drop_tasks();
  // True if the caller is a task of this executor.
  [[nodiscard]] bool is_own_thread() const {
    return thread_.get_id() == std::this_thread::get_id();
  }

  void post(Task task) override;
  void post_at(MonoTime when, Task task) override;

 private:
  void run();
  // The next task that is ready or due; none once stopping.
  [[nodiscard]] Task next_task();

  std::thread thread_;  // changed by start() and stop() only

  base::StdMutex mutex_;
  base::ConditionVariable wake_;
  std::deque<Task> ready_ WEIR_GUARDED_BY(mutex_);
  std::multimap<MonoTime, Task> later_ WEIR_GUARDED_BY(mutex_);
  bool stopping_ WEIR_GUARDED_BY(mutex_) = false;
};

}  // namespace weir::platform
