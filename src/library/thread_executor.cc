#include <utility>

#include "platform/own_thread.h"
#include "platform/thread_executor.h"
#include "weir/executor.h"

namespace weir {

struct ThreadExecutor::Thread {
  platform::ThreadExecutor executor;
};

ThreadExecutor::ThreadExecutor(const Clock& clock)
    : clock_(clock), thread_(std::make_unique<Thread>()) {}

ThreadExecutor::~ThreadExecutor() {
  if (!thread_->executor.is_own_thread()) return;
  // A thread cannot join itself: another one does, after the task that runs now.
  thread_->executor.drop_tasks();
  platform::destroy_elsewhere(std::move(thread_));
}

void ThreadExecutor::start() {
  thread_->executor.start();
}

void ThreadExecutor::stop() {
  thread_->executor.stop();
}

void ThreadExecutor::post(Task task) {
  thread_->executor.post(std::move(task));
}

void ThreadExecutor::post_at(MonoTime when, Task task) {
  // The platform's executor follows the system clock, which `clock_` may not be.
  const MonoTime due = system_clock().now().mono + (when - clock_.now().mono);
  thread_->executor.post_at(due, std::move(task));
}

}  // namespace weir
