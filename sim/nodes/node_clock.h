// The wall clock of a node: the simulated time, plus a skew that faults set, plus clock shapes.
// Monotonic time is never affected.

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/split_mix.h"
#include "sim/nodes/clock_shape.h"
#include "weir/clock.h"

namespace weir::sim {

// One thread at a time.
class NodeClock final : public Clock {
 public:
  NodeClock(const Clock& world, Millis skew) : NodeClock(world, skew, {}, 0) {}
  // `seed` draws the offsets of stepping shapes.
  NodeClock(const Clock& world, Millis skew, std::vector<ClockShape> shapes, uint64_t seed)
      : world_(world),
        began_(world.now().mono),
        shapes_(std::move(shapes)),
        seed_(seed),
        skew_(skew) {}

  [[nodiscard]] Instant now() const override {
    Instant now = world_.now();
    now.wall += skew_;
    for (const ClockShape& shape : shapes_) now.wall += offset_of(shape, now.mono - began_);
    return now;
  }

  // Sets the wall clock to this offset; the shapes add theirs to it.
  void set_skew(Millis skew) {
    latest_ = latest();
    skew_ = skew;
  }
  [[nodiscard]] Millis skew() const { return skew_; }
  // The latest wall time that the clock has shown, as far as this function or set_skew saw it.
  [[nodiscard]] WallTime latest() const { return latest_ = std::max(latest_, now().wall); }
  void forget_latest() { latest_ = {}; }

 private:
  [[nodiscard]] Millis offset_of(const ClockShape& shape, Nanos passed) const {
    using Kind = ClockShape::Kind;
    const auto gained = [&](Nanos since) {
      const Nanos per_million = since / 1'000'000;
      return std::chrono::floor<Millis>(per_million * shape.parts_per_million);
    };
    switch (shape.kind) {
      case Kind::kSteady: return shape.by;
      case Kind::kDrifting: return gained(passed);
      case Kind::kSawtooth: return gained(passed % Nanos(shape.every));
      case Kind::kStepping: break;
    }
    // A new offset for each period; none in the first.
    const auto times = static_cast<uint64_t>(passed / Nanos(shape.every));
    if (times == 0) return Millis(0);
    uint64_t state = seed_ + times;
    const auto span = static_cast<uint64_t>(2 * shape.by.count() + 1);
    return Millis(static_cast<int64_t>(base::split_mix(state) % span)) - shape.by;
  }

  const Clock& world_;
  const MonoTime began_;
  const std::vector<ClockShape> shapes_;
  const uint64_t seed_;
  Millis skew_;
  mutable WallTime latest_{};
};

}  // namespace weir::sim
