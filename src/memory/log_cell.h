// The log class: a stamp for each unit of cost admitted, exact.
//
//   hot[1]  head: bits 0-18 the number of the next unit, bits 19-62 the newest stamp, or that
//           of creation, plus 1 ms, so that 0 is algorithms::kNoStamp
//   hot[3]  buffer: a power of two of stamps, each with the number of its unit
//   hot[4]  the size of the buffer minus one
//   hot[5]  after a failed attempt to grow for lack of memory, when to try again; else 0
//
// One compare-and-swap of the head reserves the numbers of the admitted units and fixes their
// stamp, which is never before the newest. The stamps are written afterwards. A reader that finds
// a unit whose stamp is not written yet sees the number of an older unit there and treats this one
// as admitted now: an error on the strict side, for the duration of a store. For that reason a new
// buffer is not empty: it contains units from before the first, with a stamp outside every window.
//
// The buffer has at least limit + 1 units; a request with a larger limit needs the slot rebuilt.
// Without memory for that, the log decides as if the limit were its own size, which is stricter,
// and tries to grow again a second later.
//
// Safe from any thread that holds an epoch guard.

#pragma once

#include <memory>

#include "algorithms/sliding_log.h"
#include "memory/head_lock.h"
#include "memory/slot.h"

namespace weir::memory {

struct LogHead {
  static constexpr int kUnitBits = 19;
  static constexpr uint64_t kUnitMask = (uint64_t{1} << kUnitBits) - 1;
  uint64_t word = 0;

  static LogHead make(WallTime stamp, uint64_t unit) {
    return {static_cast<uint64_t>(stamp.time_since_epoch().count() + 1) << kUnitBits |
            (unit & kUnitMask)};
  }
  [[nodiscard]] uint64_t unit() const { return word & kUnitMask; }
  [[nodiscard]] WallTime stamp() const {
    return WallTime(Millis(static_cast<int64_t>((word & ~kClosedBit) >> kUnitBits) - 1));
  }
};

// The largest buffer has 2^14 units, so numbers repeat only after 32 rounds of it.
[[nodiscard]] size_t log_buffer_units(Count limit);

class LogCell {
 public:
  explicit LogCell(const Tuple& tuple)
      : slot_(*tuple.slot),
        stamps_(tuple.slot->buffer<Word>()),
        mask_(tuple.slot->hot[4].load(std::memory_order_relaxed)) {}

  [[nodiscard]] CellDecision decide(const Query& query, Effect effect) const;

  // For a batch, as in ring_cell.h.
  [[nodiscard]] Word& head() const { return slot_.hot[1]; }
  [[nodiscard]] CellDecision peek_locked(const Query& query) const;
  void charge_locked(const Query& query) const;

  // Whether the query can be charged to this state; if not, rebuild. A peek is always possible.
  [[nodiscard]] bool fits(const Query& query) const;

  // Whether the query is decided by a smaller limit than requested.
  [[nodiscard]] bool is_undersized_for(const Query& query) const {
    return query.ask.capacity > mask_ && may_not_grow(query.now);
  }
  // Call when there is no memory for a larger buffer.
  void postpone_growth(WallTime now) const;

 private:
  [[nodiscard]] bool may_not_grow(WallTime now) const;
  [[nodiscard]] CellDecision evaluate(const Query& query, LogHead head) const;
  [[nodiscard]] WallTime stamp_back(LogHead head, WallTime now, Count back) const;
  [[nodiscard]] LogHead charged(const Query& query, LogHead head) const;
  void write_stamps(LogHead from, LogHead to) const;

  Slot& slot_;
  Word* stamps_;
  uint64_t mask_;
};

}  // namespace weir::memory
