// Holding a tuple whose state is several words, for the length of a batch.
//
// A ring or a log cannot take back what others have built upon, so a batch does not
// charge it tentatively: it sets the top bit of the head, looks, and either charges or
// lets go. Meanwhile others may look but not charge; they look again a bounded number
// of times and, if the holder was put to sleep by the system just then, refuse for one
// tick. Never a false allow.

#pragma once

#include "memory/slot.h"

namespace weir::memory {

inline constexpr int kHoldTurns = 20'000;  // some 100 us, a hundred times a batch

[[nodiscard]] inline bool held(uint64_t head) {
  return (head & kClosedBit) != 0;
}

// Takes hold of a head word. False: it was taken away or is held for too long.
[[nodiscard]] inline bool try_hold(Word& head) {
  uint64_t seen = head.load(std::memory_order_acquire);
  for (int turn = 0; turn < kHoldTurns; ++turn) {
    if (seen == kGone) return false;
    if (held(seen)) {
      relax();
      seen = head.load(std::memory_order_acquire);
    } else if (head.compare_exchange_weak(seen, seen | kClosedBit, std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
      return true;
    }
  }
  return false;
}

inline void let_go(Word& head) {
  head.fetch_and(~kClosedBit, std::memory_order_acq_rel);
}

// What is answered when a holder did not let go in time.
inline void refuse_for_one_tick(WallTime now, algorithms::Decision& decision) {
  decision.outcome = Outcome::kDenied;
  decision.retry_at = now + Millis(1);
}

}  // namespace weir::memory
