// Reading one clock costs 30-45 ns, so the wall clock is read ten times a second only,
// by whichever thread comes first; everyone else adds an offset.

#include <atomic>
#include <chrono>
#include <mutex>

#include "platform/wall_discipline.h"
#include "weir/clock.h"

namespace weir::platform {
namespace {

Nanos steady_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}
Nanos wall_now() {
  return std::chrono::system_clock::now().time_since_epoch();
}

// Safe from any thread.
class SystemClock final : public Clock {
 public:
  SystemClock() {
    const Nanos steady = steady_now();
    discipline_.start(steady, wall_now());
    publish(steady);
  }

  [[nodiscard]] Instant now() const override {
    const Nanos steady = steady_now();
    if (steady.count() >= follow_at_.load(std::memory_order_relaxed)) follow(steady);
    const Nanos wall = steady + Nanos(offset_.load(std::memory_order_relaxed));
    return {.wall = WallTime(std::chrono::floor<Millis>(wall)), .mono = MonoTime(steady)};
  }

 private:
  static constexpr Nanos kFollowEvery = std::chrono::milliseconds(100);

  void follow(Nanos steady) const {
    // Whoever does not get the lock uses the offset as it is: it is at most a little old.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || steady.count() < follow_at_.load(std::memory_order_relaxed)) return;
    discipline_.follow(steady, wall_now());
    publish(steady);
  }

  void publish(Nanos steady) const {
    offset_.store(discipline_.offset().count(), std::memory_order_relaxed);
    follow_at_.store((steady + kFollowEvery).count(), std::memory_order_relaxed);
  }

  mutable std::mutex mutex_;
  mutable WallDiscipline discipline_;  // guarded by mutex_
  // Single numbers, each meaningful alone: relaxed.
  mutable std::atomic<int64_t> offset_{0};
  mutable std::atomic<int64_t> follow_at_{0};
};

}  // namespace
}  // namespace weir::platform

namespace weir {

const Clock& system_clock() {
  static const platform::SystemClock clock;
  return clock;
}

}  // namespace weir
