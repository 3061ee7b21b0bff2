// The ring class: sub-cell counts of a strict sliding window.
//
//   hot[0]  newest: the newest sub-cell seen, whole
//   hot[1]  head: tag of the newest sub-cell charged, and the running total
//   hot[3]  buffer: for each of the last 32 sub-cells, the total at its start, tagged
//
// The count of a sub-cell is the difference of two totals. So all admissions, in any sub-cell,
// change the one word `head`, and one compare-and-swap is a decision over all of them.
//
// The first thread that charges a sub-cell writes its starting total before it moves the head. If
// the charge then fails, the total may be lower than the final one: a lower start means a higher
// count, so the error is on the strict side and ends when the sub-cell leaves the window. Totals
// begin at 1, so that a word of 0 means "never written", and wrap at 2^44, far beyond any
// difference within a window.
//
// Safe from any thread that holds an epoch guard.

#pragma once

#include <array>

#include "algorithms/strict_ring.h"
#include "memory/head_lock.h"
#include "memory/slot.h"

namespace weir::memory {

inline constexpr int kRingBases = 32;  // a power of two above kRingCells
static_assert(kRingBases >= algorithms::kRingCells);

struct RingBuffer {
  std::array<Word, kRingBases> base{};
};

class RingCell {
 public:
  explicit RingCell(const Tuple& tuple)
      : slot_(*tuple.slot), buffer_(*tuple.slot->buffer<RingBuffer>()) {}

  // Whether the query can be charged to this state; if not, rebuild. A peek is always possible.
  [[nodiscard]] bool fits(const Query& query) const;

  [[nodiscard]] CellDecision decide(const Query& query, Effect effect) const;

  // For a batch. Between try_lock_head() and unlock_head() only the lock holder charges: it peeks
  // with peek_locked() and charges the sum of its costs at most once.
  [[nodiscard]] Word& head() const { return slot_.hot[1]; }
  [[nodiscard]] CellDecision peek_locked(const Query& query) const;
  void charge_locked(const Query& query) const;

 private:
  struct View {
    algorithms::Position at{};
    algorithms::RingCounts counts{};
    Count total = 0;
    bool within_reach = false;  // if not, all counts are 0 and nothing may be charged
  };
  [[nodiscard]] View view(WallTime now, Millis duration, uint64_t head) const;
  [[nodiscard]] View view_from(int64_t newest, WallTime now, Millis duration, uint64_t head) const;
  void open(const View& view) const;

  Slot& slot_;
  RingBuffer& buffer_;
};

}  // namespace weir::memory
