// An executor without a thread: the thread that calls wait() runs the tasks, until a task calls
// finish(). It turns an asynchronous call into a blocking one.

#pragma once

#include <map>
#include <vector>

#include "base/mutex.h"
#include "weir/clock.h"
#include "weir/executor.h"

namespace weir::platform {

// post() and post_at(): any thread; everything else: the waiting thread.
class BlockingExecutor final : public Executor {
 public:
  // Times of post_at() are readings of `clock`. They are converted to steady time at once, so that
  // a clock that stands still does not block forever.
  explicit BlockingExecutor(const Clock& clock) : clock_(clock) {}

  void post(Task task) override;
  void post_at(MonoTime when, Task task) override;

  // Runs tasks until finish(), or until the limiter's clock has advanced to `deadline`. False: not
  // finished; all tasks were dropped, and tasks posted from now on are dropped, too.
  [[nodiscard]] bool wait(MonoTime deadline);
  // By a task: ends wait().
  void finish() { finished_ = true; }

 private:
  [[nodiscard]] MonoTime steady_time_of(MonoTime when) const;

  const Clock& clock_;
  bool finished_ = false;  // of the waiting thread

  base::StdMutex mutex_;
  base::ConditionVariable posted_;
  std::vector<Task> ready_ WEIR_GUARDED_BY(mutex_);
  std::multimap<MonoTime, Task> later_ WEIR_GUARDED_BY(mutex_);  // by steady time
  bool closed_ WEIR_GUARDED_BY(mutex_) = false;
};

}  // namespace weir::platform
