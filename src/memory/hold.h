// Holding a tuple whose state is several words, for the length of a batch.
//
// A ring or a log cannot take back what others have built upon, so a batch does not
// charge it tentatively: it sets the top bit of the head, looks, and either charges or
// lets go. Meanwhile others may look but not charge; they look again a bounded number
// of times and, if the holder was put to sleep by the system just then, refuse for one
// tick. Never a false allow. A request waits on the event loop of a server, so this bounds all of
// its waits together, not each.

#pragma once

#include "memory/slot.h"

namespace weir::memory {

// Turns that one request waits, in all: some 100 us, a hundred times a short batch. A relax() takes
// 14 ns on a Neoverse V1 and some 45 ns on a Cascade Lake; with the look between two of them, 2,000
// turns take 33 us (a batch) to 106 us (a single request) on the former.
inline constexpr int kHoldTurns = 2'000;

[[nodiscard]] inline bool held(uint64_t head) {
  return (head & kClosedBit) != 0;
}

enum class Hold : uint8_t {
  kTaken,
  kMoved,    // the tuple was taken away: look for it again
  kTooLong,  // another holds it, and the turns are spent
};

// Takes hold of a head word. `turns` is how many the request has left, and is left with less.
[[nodiscard]] inline Hold try_hold(Word& head, int& turns) {
  uint64_t seen = head.load(std::memory_order_acquire);
  for (;; --turns) {
    if (seen == kGone) return Hold::kMoved;
    if (!held(seen) &&
        head.compare_exchange_weak(seen, seen | kClosedBit, std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return Hold::kTaken;
    }
    if (turns <= 0) return Hold::kTooLong;
    relax();
    seen = head.load(std::memory_order_acquire);
  }
}

inline void let_go(Word& head) {
  head.fetch_and(~kClosedBit, std::memory_order_acq_rel);
}

// What is answered when a holder did not let go in time: nothing of the cost was charged.
inline void refuse_for_one_tick(const Query& query, algorithms::Decision& decision) {
  if (decision.admitted()) decision.remaining += query.ask.cost;
  decision.outcome = Outcome::kDenied;
  decision.retry_at = query.now + Millis(1);
}

}  // namespace weir::memory
