// A clock and an executor that a single-threaded test advances explicitly.

#pragma once

#include <deque>
#include <map>
#include <utility>

#include "weir/clock.h"
#include "weir/executor.h"

namespace weir::doubles {

// Starts at a wall time that is a multiple of one hour, and at a monotonic time that is
// unrelated to it.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const override { return now_; }

  void advance(Millis by) {
    now_.wall += by;
    now_.mono += by;
  }
  // Sets the wall clock; monotonic time does not change.
  void step_wall(Millis by) { now_.wall += by; }

 private:
  Instant now_{.wall = WallTime(Millis(1'699'999'200'000)),
               .mono = MonoTime(Nanos(77'000'000'000))};
};
static_assert(1'699'999'200'000 % 3'600'000 == 0);

// Runs tasks only in run().
class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(const Clock& clock) : clock_(clock) {}

  void post(Task task) override { ready_.push_back(std::move(task)); }
  void post_at(MonoTime when, Task task) override { later_.emplace(when, std::move(task)); }

  // Runs all tasks that are ready or due by the clock; returns their number.
  size_t run() {
    size_t ran = 0;
    for (;;) {
      while (!later_.empty() && later_.begin()->first <= clock_.now().mono) {
        ready_.push_back(std::move(later_.begin()->second));
        later_.erase(later_.begin());
      }
      if (ready_.empty()) return ran;
      const Task task = std::move(ready_.front());
      ready_.pop_front();
      task();
      ++ran;
    }
  }

 private:
  const Clock& clock_;
  std::deque<Task> ready_;
  std::multimap<MonoTime, Task> later_;
};

}  // namespace weir::doubles
