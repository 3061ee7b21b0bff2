// Counts the parts of a call that end on any thread, in any order. The one that ends last goes on
// with the call.

#pragma once

#include <cstddef>

#include "base/atomic.h"

namespace weir::base {

class Countdown {
 public:
  explicit Countdown(size_t parts = 0) : parts_(parts) {}

  // Before the first part can end. Relaxed: whoever starts a part also publishes this.
  void set(size_t parts) { parts_.store(parts, std::memory_order_relaxed); }

  // True for the part that ends last. Acquire and release: it sees what the others wrote.
  [[nodiscard]] bool end_part() { return parts_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  [[nodiscard]] bool has_ended() const { return parts_.load(std::memory_order_acquire) == 0; }

 private:
  Atomic<size_t> parts_;
};

}  // namespace weir::base
