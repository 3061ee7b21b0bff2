// Virtual time: a queue of what happens when. Nothing waits; the clock jumps from one
// event to the next, and events of the same instant come in an order drawn from the seed.

#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "sim/random.h"
#include "weir/clock.h"
#include "weir/executor.h"

namespace weir::sim {

// The world's clock and executor in one. One thread at a time.
class Timeline final : public Clock, public Executor {
 public:
  explicit Timeline(uint64_t seed) : ties_(seed) {}

  [[nodiscard]] Instant now() const override { return now_; }

  void post(Task task) override { post_at(now_.mono, std::move(task)); }
  void post_at(MonoTime when, Task task) override {
    const MonoTime due = when < now_.mono ? now_.mono : when;
    events_.emplace(Key{due, ties_.next(), ++posted_}, std::move(task));
  }
  void post_in(Millis delay, Task task) { post_at(now_.mono + delay, std::move(task)); }

  // Runs the next event; false if there is none before `end`.
  bool step(MonoTime end) {
    if (events_.empty() || events_.begin()->first.due > end) return false;
    const auto node = events_.extract(events_.begin());
    now_.mono = node.key().due;
    set_wall();
    node.mapped()();
    return true;
  }

  // All wall clocks are set ahead.
  void jump(Millis ahead) {
    jumped_ += ahead;
    set_wall();
  }

 private:
  struct Key {
    MonoTime due;
    uint64_t tie;
    uint64_t posted;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  void set_wall() {
    now_.wall = WallTime(kStart + jumped_ + std::chrono::floor<Millis>(now_.mono - kBegan));
  }

  static constexpr Millis kStart{1'699'999'200'000};
  static constexpr MonoTime kBegan{std::chrono::hours(1)};
  Millis jumped_{0};
  Instant now_{.wall = WallTime(kStart), .mono = kBegan};
  Random ties_;
  uint64_t posted_ = 0;
  std::map<Key, Task> events_;
};

// A node's own idea of wall time: the world's, a little off, and now and then set anew.
class SkewedClock final : public Clock {
 public:
  SkewedClock(const Clock& world, Millis skew) : world_(world), skew_(skew) {}
  [[nodiscard]] Instant now() const override {
    Instant now = world_.now();
    now.wall += skew_;
    return now;
  }
  // The wall clock is set to be this far off; waiting goes on.
  void set_skew(Millis skew) {
    latest_ = latest();
    skew_ = skew;
  }
  [[nodiscard]] Millis skew() const { return skew_; }
  // The latest it has ever shown, or since that was forgotten.
  [[nodiscard]] WallTime latest() const { return std::max(latest_, now().wall); }
  void forget_latest() { latest_ = {}; }

 private:
  const Clock& world_;
  Millis skew_;
  WallTime latest_{};
};

// Where one process of the world runs its tasks, until it dies. What is left then is run all
// the same, since only that lets go of what it holds; whoever posts or is called back by it
// asks whether the process is alive. `before_each` is told of the tasks of the living.
class ProcessExecutor final : public Executor {
 public:
  explicit ProcessExecutor(
      Timeline& timeline, Task before_each = [] {})
      : timeline_(timeline), before_each_(std::make_shared<Task>(std::move(before_each))) {}

  void post(Task task) override { timeline_.post(watched(std::move(task))); }
  void post_at(MonoTime when, Task task) override {
    timeline_.post_at(when, watched(std::move(task)));
  }
  void die() { *alive_ = false; }
  [[nodiscard]] bool alive() const { return *alive_; }

 private:
  [[nodiscard]] Task watched(Task task) const {
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
