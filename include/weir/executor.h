// The port that runs work later or on another thread.

#pragma once

#include <memory>

#include "weir/clock.h"
#include "weir/export.h"
#include "weir/time.h"
#include "weir/unique_function.h"

namespace weir {

using Task = UniqueFunction<void()>;

// Runs tasks one at a time, in the order posted. Safe to post from any thread. Each task
// runs exactly once, unless the executor is destroyed first.
class WEIR_EXPORT Executor {
 public:
  virtual ~Executor() = default;
  virtual void post(Task task) = 0;
  // Runs the task at `when` or later.
  virtual void post_at(MonoTime when, Task task) = 0;
};

// An executor with one thread of its own. start() and stop(): one thread at a time;
// everything else: any thread. Times are readings of `clock`, which must outlive it.
class WEIR_EXPORT ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(const Clock& clock);
  explicit ThreadExecutor(const Clock&&) = delete;
  // stop(). A task may destroy its executor: the tasks that wait are dropped then.
  ~ThreadExecutor() override;
  ThreadExecutor(const ThreadExecutor&) = delete;
  ThreadExecutor& operator=(const ThreadExecutor&) = delete;

  // The constructor starts nothing: tasks wait until start().
  void start();
  // Runs the tasks of post() that wait, drops those of post_at(), and joins the thread.
  void stop();

  void post(Task task) override;
  void post_at(MonoTime when, Task task) override;

 private:
  struct Thread;
  const Clock& clock_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace weir
