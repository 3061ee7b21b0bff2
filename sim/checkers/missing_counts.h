// Accepted counts that the origin does not have, and whether that is excused. Checkers of bounds
// and sums share these functions.

#pragma once

#include "sim/checkers/region_checker.h"

namespace weir::sim {

[[nodiscard]] Millis duration_of(const CellId& cell);
[[nodiscard]] WallTime expiry_of(const CellId& cell);
// The current or the previous window at this time.
[[nodiscard]] bool is_live_at(const CellId& cell, WallTime now);

// Whether the clock of a process was hours off, so that it may have lost its counts of the cell.
[[nodiscard]] bool had_wrong_clock(const ProcessInfo& process, const CellId& cell);
// Whether that holds for a process that accepted something in the cell.
[[nodiscard]] bool any_had_wrong_clock(const Oracle& oracle, const CellId& cell);

// Whether no process can replay the counts any more: the process has ended, or has evicted the
// tuple, which it may do once the origin has all of it.
[[nodiscard]] bool is_unrecoverable(const RegionView& view, const Contributor& contributor,
                                    const CellId& cell);
[[nodiscard]] const std::vector<ComponentValue>& history_of(const RegionView& view,
                                                            const Contributor& contributor,
                                                            const CellId& cell);

// What steps have granted, at most, to requests that are not answered yet, that did not wait, or
// that were denied with their batch. The origin counts it.
[[nodiscard]] Count unanswered_grants(const Oracle& oracle, const OriginHistory& origin,
                                      const CellId& cell);

// Counts of a cell that no process can replay any more.
struct MissingCounts {
  Count died_unacked = 0;      // never arrived
  Count lost_with_origin = 0;  // arrived, but the origin lost it later
};
[[nodiscard]] MissingCounts missing_counts(const RegionView& view, const CellId& cell);

// What the origin ever lost of a cell, also if a process has replayed it since.
[[nodiscard]] Count lost_at_origin(const RegionView& view, const CellId& cell);

enum class ReplayStatus : uint8_t {
  kPresent,  // at the origin during the whole time
  kExcused,  // missing for some time, with an excuse
  kOverdue,  // missing without an excuse
};

// The status of an accept at the origin from `since` until now. It may be missing
// - while it is so young that its process need not have replayed it, or the message may be in
//   flight,
// - during the time of a retry after a message did not arrive in time,
// - after the origin lost it, until its process detects that (acked_in_time.cc checks the rest).
// For a process that was killed, the excuses at the instant of its end count.
//
// An accept of generation 0 was granted by a step, and its tuple was evicted before the answer: its
// component is unknown. The step wrote it before the answer, so it was missing only if it was
// answered after `since`, or if the origin has lost counts of the cell, which no process replays.
[[nodiscard]] ReplayStatus replay_status(const RegionView& view, const CellId& cell,
                                         const Accept& accept, MonoTime since);

}  // namespace weir::sim
