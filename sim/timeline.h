// Virtual time: a queue of events. Nothing waits; the clock moves from one event to the next. The
// seed decides the order of events of the same instant.

#pragma once

#include <map>
#include <utility>

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

  // Sets all wall clocks ahead.
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

}  // namespace weir::sim
