// Runs the tasks of one simulated process on the timeline.
//
// Tasks that are left when the process ends still run, because only that releases what they hold.
// A task that must not run after the end checks alive(). `before_each` is called before each task
// of a process that is alive. The tasks of a paused process run when it wakes, in their order.

#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "sim/timeline.h"
#include "weir/executor.h"

namespace weir::sim {

class ProcessExecutor final : public Executor {
 public:
  explicit ProcessExecutor(
      Timeline& timeline, Task before_each = [] {})
      : timeline_(timeline), state_(std::make_shared<State>()) {
    state_->before_each = std::move(before_each);
  }

  void post(Task task) override {
    ++state_->ready;
    timeline_.post(wrapped([state = state_, task = std::move(task)] {
      --state->ready;
      task();
    }));
  }
  void post_at(MonoTime when, Task task) override {
    timeline_.post_at(when, wrapped(std::move(task)));
  }
  void pause_until(MonoTime then) { state_->paused_until = then; }
  void end() { state_->alive = false; }
  [[nodiscard]] bool alive() const { return state_->alive; }
  // Whether tasks of post() wait to run: what they will answer is decided already.
  [[nodiscard]] bool has_ready() const { return state_->ready > 0; }

 private:
  // Tasks may outlive the executor.
  struct State {
    Task before_each;
    bool alive = true;
    int ready = 0;
    MonoTime paused_until{};
    MonoTime woken{};  // when the last task of the pause runs
  };

  [[nodiscard]] Task wrapped(Task task) const {
    return [&timeline = timeline_, state = state_, task = std::move(task)]() mutable {
      const bool runs = !state->alive || timeline.now().mono >= state->paused_until;
      if (runs) return run(*state, task);
      state->woken = std::max(state->woken + Nanos(1), state->paused_until);
      timeline.post_at(state->woken, [state, task = std::move(task)] { run(*state, task); });
    };
  }
  static void run(const State& state, const Task& task) {
    if (state.alive) state.before_each();
    task();
  }

  Timeline& timeline_;
  std::shared_ptr<State> state_;
};

}  // namespace weir::sim
