// A node's own idea of wall time: the world's, and what its shape and those who set it make of
// that. Waiting is never affected.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/split_mix.h"
#include "sim/scenario/scenario.h"
#include "weir/clock.h"

namespace weir::sim {

// One thread at a time.
class NodeClock final : public Clock {
 public:
  NodeClock(const Clock& world, std::vector<ClockShape> shapes, uint64_t seed)
      : world_(world), began_(world.now().mono), shapes_(std::move(shapes)), seed_(seed) {}

  [[nodiscard]] Instant now() const override {
    Instant now = world_.now();
    now.wall += off_;
    for (const ClockShape& shape : shapes_) now.wall += off_by(shape, now.mono - began_);
    return now;
  }

  // The wall clock is set to be this far off, beside what its shape does.
  void set(Millis off) { off_ = off; }

 private:
  [[nodiscard]] Millis off_by(const ClockShape& shape, Nanos passed) const {
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
    // Set anew each time; right until the first.
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
  Millis off_{0};
};

}  // namespace weir::sim
