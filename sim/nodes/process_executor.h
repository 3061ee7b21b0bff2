// Runs the tasks of one simulated process on the timeline.
//
// Tasks that are left when the process ends still run, because only that releases what they hold.
// A task that must not run after the end checks alive(). `before_each` is called before each task
// of a process that is alive.

#pragma once

#include <memory>
#include <utility>

#include "sim/timeline.h"
#include "weir/executor.h"

namespace weir::sim {

class ProcessExecutor final : public Executor {
 public:
  explicit ProcessExecutor(
      Timeline& timeline, Task before_each = [] {})
      : timeline_(timeline), before_each_(std::make_shared<Task>(std::move(before_each))) {}

  void post(Task task) override { timeline_.post(wrapped(std::move(task))); }
  void post_at(MonoTime when, Task task) override {
    timeline_.post_at(when, wrapped(std::move(task)));
  }
  void end() { *alive_ = false; }
  [[nodiscard]] bool alive() const { return *alive_; }

 private:
  [[nodiscard]] Task wrapped(Task task) const {
    return [alive = alive_, before_each = before_each_, task = std::move(task)] {
      if (*alive) (*before_each)();
      task();
    };
  }
  Timeline& timeline_;
  std::shared_ptr<Task> before_each_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weir::sim
