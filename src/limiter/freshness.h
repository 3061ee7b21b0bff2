// When the origin must be read before a decision, and how long a read is good for.
//
// hot[5] of a window tuple says until when no read is tried. Its lowest bit says why:
// clear, because what is known is fresh; set, because the last read failed and the
// origin is left alone for a while. A failed read makes nothing fresh.

#pragma once

#include <algorithm>

#include "memory/window_cells.h"
#include "weir/time.h"

namespace weir::limiter {

// After a failed read the origin is not asked again for the same tuple before this.
inline constexpr Millis kReadPause{300};

enum class Need : uint8_t {
  kNothing,      // fresh
  kRefused,      // what is known refuses already, and counts only grow
  kReadBoth,     // cold or stale: this window and the last
  kReadCurrent,  // strict: only this window still grows
  kDoWithout,    // a read is due, but the last one failed just now
};

[[nodiscard]] inline bool is_read(Need need) {
  return need == Need::kReadBoth || need == Need::kReadCurrent;
}

// How well informed a decision is that is taken without the read it would need.
[[nodiscard]] inline Basis basis_without_reading(Need need) {
  return need == Need::kNothing || need == Need::kRefused ? Basis::kLocal : Basis::kDegraded;
}

[[nodiscard]] inline Nanos fresh_for(Millis duration, Millis longest) {
  return std::min<Nanos>(longest, Nanos(duration) / 10);
}

[[nodiscard]] inline uint64_t ticks(MonoTime time) {
  return static_cast<uint64_t>(time.time_since_epoch().count());
}

[[nodiscard]] inline Need need_of(const memory::WindowCells& cells, MonoTime now) {
  const uint64_t word = cells.fresh_until().load(std::memory_order_acquire);
  const bool quiet = ticks(now) < word;
  if (quiet && (word & 1) != 0) return Need::kDoWithout;
  if (!quiet) return Need::kReadBoth;
  const uint64_t strict = cells.strict_until().load(std::memory_order_acquire);
  return ticks(now) < strict ? Need::kReadCurrent : Need::kNothing;
}

// A read begun at `began` has come back whole.
inline void note_read(const memory::WindowCells& cells, MonoTime began, Nanos fresh) {
  const uint64_t until = ticks(began + fresh) & ~uint64_t{1};
  uint64_t seen = cells.fresh_until().load(std::memory_order_relaxed);
  while (seen < until || (seen & 1) != 0) {
    if (cells.fresh_until().compare_exchange_weak(seen, until, std::memory_order_acq_rel,
                                                  std::memory_order_relaxed)) {
      return;
    }
  }
}

inline void note_failed_read(const memory::WindowCells& cells, MonoTime now) {
  const uint64_t until = (ticks(now + kReadPause) & ~uint64_t{1}) - 1;  // odd: it failed
  uint64_t seen = cells.fresh_until().load(std::memory_order_relaxed);
  // What is still fresh stays so.
  while (seen <= ticks(now)) {
    if (cells.fresh_until().compare_exchange_weak(seen, until, std::memory_order_acq_rel,
                                                  std::memory_order_relaxed)) {
      return;
    }
  }
}

}  // namespace weir::limiter
