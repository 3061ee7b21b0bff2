// An executor with a thread of its own.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "weir/executor.h"

namespace weir::platform {

// Safe from any thread. start() begins, stop() runs what was posted without a time,
// forgets what was to run later, and joins.
class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor() = default;
  ~ThreadExecutor() override { stop(); }

  void start();
  void stop();

  void post(Task task) override;
  void post_at(MonoTime when, Task task) override;

 private:
  void run();

  std::thread thread_;  // touched by start() and stop() only

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> ready_;               // guarded by mutex_
  std::multimap<MonoTime, Task> later_;  // guarded by mutex_
  bool stopping_ = false;                // guarded by mutex_
};

}  // namespace weir::platform
