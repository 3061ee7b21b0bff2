// What the origin does not have of what was accepted, and whether that can be excused. The
// checkers that speak of a bound or of a sum share these answers.

#pragma once

#include "sim/checkers/region_checker.h"

namespace weir::sim {

[[nodiscard]] Millis duration_of(const CellId& cell);
[[nodiscard]] WallTime expiry_of(const CellId& cell);
// The window at this time, or the one before it.
[[nodiscard]] bool is_live_at(const CellId& cell, WallTime now);

// Whether the clock of a process was hours off, so that it may have lost what it knew of the cell.
[[nodiscard]] bool had_wrong_clock(const ProcessInfo& process, const CellId& cell);
// Whether that holds for one that accepted something in the cell.
[[nodiscard]] bool any_had_wrong_clock(const Oracle& oracle, const CellId& cell);

// Whether nobody can tell it any more: its process has ended, or has forgotten the tuple, which it
// may once the origin has all of it.
[[nodiscard]] bool is_unrecoverable(const RegionView& view, const Contributor& contributor,
                                    const CellId& cell);
[[nodiscard]] const std::vector<ComponentValue>& history_of(const RegionView& view,
                                                            const Contributor& contributor,
                                                            const CellId& cell);

// Parts of a cell that nobody can tell any more.
struct MissingCounts {
  Count died_unacked = 0;      // never arrived
  Count lost_with_origin = 0;  // arrived, but the origin lost it later
};
[[nodiscard]] MissingCounts missing_counts(const RegionView& view, const CellId& cell);

enum class ReplayStatus : uint8_t {
  kPresent,  // at the origin all the time since
  kExcused,  // not there for some time, for a reason that may be
  kOverdue,  // not there, and it should have been
};

// How an accept stands at the origin from `since` until now. It may be missing
// - while it is so young that its process need not have told it yet, or its message may
//   still be under way,
// - within the time that it takes to send again after a message did not arrive in time,
// - once it was there and the origin lost it, until its process hears of that (told in time
//   sees to the rest).
// A process that died is excused for what was excused in the instant it died.
[[nodiscard]] ReplayStatus replay_status(const RegionView& view, const CellId& cell,
                                         const Accept& accept, MonoTime since);

}  // namespace weir::sim
