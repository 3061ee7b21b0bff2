// Virtual time: a queue of events. Nothing waits; the clock moves from one event to the next. The
// seed decides the order of events of the same instant.

#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "sim/random.h"
#include "weir/clock.h"
#include "weir/executor.h"

namespace weir::sim {

// The clock and the executor of a simulation. One thread at a time.
class Timeline final : public Clock, public Executor {
 public:
  explicit Timeline(uint64_t seed) : ties_(seed) {}

  [[nodiscard]] Instant now() const override { return now_; }

  void post(Task task) override { post_at(now_.mono, std::move(task)); }
  void post_at(MonoTime when, Task task) override {
    const MonoTime due = when < now_.mono ? now_.mono : when;
    const size_t place = place_of(std::move(task));
    events_.push({.due = due, .tie = ties_.next(), .posted = ++posted_, .task = place});
  }
  void post_in(Millis delay, Task task) { post_at(now_.mono + delay, std::move(task)); }

  // Runs the next event; false if there is none before `end`.
  bool step(MonoTime end) {
    if (events_.empty() || events_.top().due > end) return false;
    const Event event = events_.top();
    events_.pop();
    const Task task = std::move(tasks_[event.task]);
    free_.push_back(event.task);
    now_.mono = event.due;
    set_wall();
    task();
    return true;
  }

  // Sets all wall clocks ahead.
  void jump(Millis ahead) {
    jumped_ += ahead;
    set_wall();
  }

 private:
  struct Event {
    MonoTime due;
    uint64_t tie;
    uint64_t posted;
    size_t task;  // in tasks_
    friend auto operator<=>(const Event&, const Event&) = default;
  };

  // Where the task is kept until it runs.
  size_t place_of(Task task) {
    if (free_.empty()) {
      tasks_.push_back(std::move(task));
      return tasks_.size() - 1;
    }
    const size_t place = free_.back();
    free_.pop_back();
    tasks_[place] = std::move(task);
    return place;
  }

  void set_wall() {
    now_.wall = WallTime(kStart + jumped_ + std::chrono::floor<Millis>(now_.mono - kBegan));
  }

  static constexpr Millis kStart{1'699'999'200'000};
  static constexpr MonoTime kBegan{std::chrono::hours(1)};
  Millis jumped_{0};
  Instant now_{.wall = WallTime(kStart), .mono = kBegan};
  Random ties_;
  uint64_t posted_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;  // the next one first
  // The queue moves its elements around, and a task is larger than all else of an event.
  std::vector<Task> tasks_;
  std::vector<size_t> free_;  // places in tasks_
};

}  // namespace weir::sim
