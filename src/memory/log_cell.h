// The log class: a stamp for each unit of cost admitted, exact.
//
//   hot[1]  head: bits 0-18 the number of the next unit, bits 19-62 the newest stamp, or that
//           of birth, plus 1 ms, so that 0 is algorithms::kNoStamp
//   hot[3]  annex: a power of two of stamps, each with its unit's number
//   hot[4]  the annex's size less one
//   hot[5]  when it may try again to grow, if there was no memory for that; else 0
//
// One compare-and-swap of the head takes the numbers of the units admitted and fixes
// their stamp, which is never before the newest; the stamps are written afterwards. A
// reader that comes to a unit whose stamp is still to be written finds the number of an
// older unit there and takes this one as admitted this instant: an error on the strict
// side, for the length of a store. That is why a new annex is not empty: it holds units
// from before the first, with a stamp that left long ago.
//
// The annex holds at least limit + 1 units; a request with a larger limit needs the slot
// rebuilt. Where there is no memory for that, the log goes on as if the limit were what it can
// hold, which is stricter, and tries again a second later.
//
// Safe from any thread that is pinned.

#pragma once

#include <memory>

#include "algorithms/sliding_log.h"
#include "memory/hold.h"
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

// The largest annex is 2^14 units, so numbers repeat only after 32 rounds of it.
[[nodiscard]] size_t log_annex_units(Count limit);

class LogCell {
 public:
  explicit LogCell(const Tuple& tuple)
      : slot_(*tuple.slot),
        stamps_(tuple.slot->annex<Word>()),
        mask_(tuple.slot->hot[4].load(std::memory_order_relaxed)) {}

  [[nodiscard]] CellDecision decide(const Query& query, Effect effect) const;

  // For a batch, as in ring_cell.h.
  [[nodiscard]] Word& head() const { return slot_.hot[1]; }
  [[nodiscard]] CellDecision look_held(const Query& query) const;
  void charge_held(const Query& query) const;

  // Whether the query can be charged here; if not, rebuild. Looking is always possible.
  [[nodiscard]] bool fits(const Query& query) const;

  // Whether the query is decided by a smaller limit than it asks for.
  [[nodiscard]] bool falls_short_of(const Query& query) const {
    return query.ask.capacity > mask_ && may_not_grow(query.now);
  }
  // There is no memory for a larger one.
  void put_off_growth(WallTime now) const;

 private:
  [[nodiscard]] bool may_not_grow(WallTime now) const;
  [[nodiscard]] CellDecision look(const Query& query, LogHead head) const;
  [[nodiscard]] WallTime stamp_back(LogHead head, WallTime now, Count back) const;
  [[nodiscard]] LogHead charged(const Query& query, LogHead head) const;
  void write_stamps(LogHead from, LogHead to) const;

  Slot& slot_;
  Word* stamps_;
  uint64_t mask_;
};

}  // namespace weir::memory
