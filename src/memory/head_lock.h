// A lock bit in the head word of a ring or log, held for the length of a batch.
//
// A ring or a log cannot refund a charge once others have charged after it, so a batch does not
// charge it tentatively. The batch sets the top bit of the head, peeks, and then charges or
// unlocks. Meanwhile other threads may peek but not charge. They retry a bounded number of times
// and, if the system suspended the holder, deny for one tick: a false denial, never a false
// admission. A request waits on the event loop of a server, so the bound covers all waits of a
// request together, not each one.

#pragma once

#include "memory/slot.h"

namespace weir::memory {

// Spins of one request in total: some 100 us, a hundred times a short batch. A cpu_relax() takes
// 14 ns on a Neoverse V1 and some 45 ns on a Cascade Lake; with the load between two of them, 2,000
// spins take 33 us (a batch) to 106 us (a single request) on the former.
inline constexpr int kHeadLockSpins = 2'000;

[[nodiscard]] inline bool is_locked(uint64_t head) {
  return (head & kClosedBit) != 0;
}

enum class HeadLock : uint8_t {
  kLocked,
  kMoved,    // the slot was frozen: find the tuple again
  kTimeout,  // another thread holds the lock, and no spins are left
};

// Locks a head word. `spins` is the remaining number of the request and is decremented.
[[nodiscard]] inline HeadLock try_lock_head(Word& head, int& spins) {
  uint64_t seen = head.load(std::memory_order_acquire);
  for (;; --spins) {
    if (seen == kFrozen) return HeadLock::kMoved;
    if (!is_locked(seen) &&
        head.compare_exchange_weak(seen, seen | kClosedBit, std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return HeadLock::kLocked;
    }
    if (spins <= 0) return HeadLock::kTimeout;
    cpu_relax();
    seen = head.load(std::memory_order_acquire);
  }
}

inline void unlock_head(Word& head) {
  head.fetch_and(~kClosedBit, std::memory_order_acq_rel);
}

// The answer when the holder did not unlock in time: nothing of the cost was charged.
inline void deny_for_one_tick(const Query& query, algorithms::Decision& decision) {
  if (decision.admitted()) decision.remaining += query.ask.cost;
  decision.outcome = Outcome::kDenied;
  decision.retry_at = query.now + Millis(1);
}

}  // namespace weir::memory
