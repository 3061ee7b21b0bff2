// Reading one clock costs 30-45 ns, so only one thread reads the wall clock, ten times a second;
// all other calls add an offset to the monotonic clock.

#include <atomic>
#include <chrono>

#include "base/mutex.h"
#include "platform/clock_discipline.h"
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
    // A thread that does not get the lock uses the current offset, which is slightly old.
    if (!mutex_.try_lock()) return;
    const base::MutexLock lock(mutex_, std::adopt_lock);
    if (steady.count() < follow_at_.load(std::memory_order_relaxed)) return;
    discipline_.follow(steady, wall_now());
    publish(steady);
  }

  void publish(Nanos steady) const WEIR_REQUIRES(mutex_) {
    offset_.store(discipline_.offset().count(), std::memory_order_relaxed);
    follow_at_.store((steady + kFollowEvery).count(), std::memory_order_relaxed);
  }

  mutable base::StdMutex mutex_;
  mutable ClockDiscipline discipline_ WEIR_GUARDED_BY(mutex_);
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
