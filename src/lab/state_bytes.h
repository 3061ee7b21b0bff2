// The memory that each algorithm needs for one key.

#pragma once

#include <cstdint>

#include "weir/request.h"

namespace weir::lab {

// In Weir, for a key of at most 56 bytes: the slot in the table, and for a ring or a log its
// buffer (docs/memory.md).
[[nodiscard]] uint64_t weir_bytes(Algorithm algorithm, Count limit);

// What the algorithm has to remember, in words of 8 bytes, without a key, a table or an allocator.
//
//   fixed_window           window and count
//   sliding_window         window and two counts
//   sliding_window_strict  sub-window and 17 counts
//   sliding_log            a stamp for each unit in the window: `entries`
//   gcra                   the theoretical arrival time
//   token_bucket           tokens and the time of the last refill
[[nodiscard]] uint64_t minimal_bytes(Algorithm algorithm, Count entries);

}  // namespace weir::lab
