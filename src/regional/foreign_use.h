// What the other regions have admitted of a tuple, for a state that charges each increase once: the
// one at the origin, or without an origin that in memory. See memory/usage_key.h.
//
// Pure.

#pragma once

#include "algorithms/windows.h"
#include "memory/slot.h"
#include "weir/request.h"

namespace weir::regional {

struct ForeignUse {
  int64_t sequence = 0;  // of the current window of the usage tuple
  Count current = 0;     // admitted in that window
  Count last = 0;        // and in the last one
  Millis width{0};       // of these windows
  Count at_first = 0;    // the most that a state charges that has charged nothing of them so far
  Count most = 0;        // the most that any state charges at once
};

// `at`: the position in the windows of the usage tuple; `counts`: of the other regions there.
[[nodiscard]] ForeignUse foreign_use(const memory::Query& query, const algorithms::Position& at,
                                     const algorithms::WindowCounts& counts,
                                     uint32_t other_regions);
// The same with the counts that a usage tuple has; the caller holds an epoch guard.
[[nodiscard]] ForeignUse foreign_use(const memory::Query& query, WallTime now,
                                     const memory::Tuple& usage, uint32_t other_regions);

}  // namespace weir::regional
