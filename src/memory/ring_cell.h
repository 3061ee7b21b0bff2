// The ring class: sub-cell counts of a strict sliding window.
//
//   hot[0]  newest: the newest sub-cell seen, whole
//   hot[1]  head: tag of the newest sub-cell charged, and the running total
//   hot[3]  annex: for each of the last 32 sub-cells, the total at its start, tagged
//
// What a sub-cell holds is the difference of two totals, so that all admissions, in
// whatever sub-cell, meet in the one word `head`, and one compare-and-swap is a
// decision over all of them.
//
// Whoever charges a sub-cell first writes its starting total before it moves the head.
// If it then fails, the total it wrote may be lower than the final one: lower starts
// mean higher counts, so the error is on the strict side, and ends when the sub-cell
// leaves. Totals begin at 1, so that a word of 0 is "never written", and wrap at 2^44,
// far beyond any difference in view.
//
// Safe from any thread that is pinned.

#pragma once

#include <array>

#include "algorithms/strict_ring.h"
#include "memory/hold.h"
#include "memory/slot.h"

namespace weir::memory {

inline constexpr int kRingBases = 32;  // a power of two above kRingCells
static_assert(kRingBases >= algorithms::kRingCells);

struct RingAnnex {
  std::array<Word, kRingBases> base{};
};

class RingCell {
 public:
  explicit RingCell(const Tuple& tuple)
      : slot_(*tuple.slot), annex_(*tuple.slot->annex<RingAnnex>()) {}

  // Whether a request at this time can be charged here; if not, rebuild. Looking is
  // always possible.
  [[nodiscard]] bool fits(const Query& query) const;

  [[nodiscard]] CellDecision decide(const Query& query, Effect effect) const;

  // For a batch. Between try_hold() and let_go() only the holder charges; it looks with
  // look_held() and charges the sum of what it looked for at most once.
  [[nodiscard]] Word& head() const { return slot_.hot[1]; }
  [[nodiscard]] CellDecision look_held(const Query& query) const;
  void charge_held(const Query& query) const;

 private:
  struct View {
    algorithms::Position at{};
    algorithms::RingCounts counts{};
    Count total = 0;
    bool within_reach = false;  // if not, nothing is in view and nothing may be charged
  };
  [[nodiscard]] View view(WallTime now, Millis duration, uint64_t head) const;
  [[nodiscard]] View view_from(int64_t newest, WallTime now, Millis duration, uint64_t head) const;
  void open(const View& view) const;

  Slot& slot_;
  RingAnnex& annex_;
};

}  // namespace weir::memory
