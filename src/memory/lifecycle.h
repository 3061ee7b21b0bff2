// Birth, change and end of a tuple's state, whatever its class. Called by the table
// only, under its locks; everything here may allocate.

#pragma once

#include <optional>

#include "memory/slot.h"

namespace weir::memory {

// What a window tuple begins with besides its window.
struct Birth {
  uint64_t generation = 0;
  uint64_t freshness = 0;
  uint64_t marks = 0;
};

// Writes the first state of a tuple into an empty slot.
void begin_state(const Tuple& tuple, const Query& query, const Birth& birth);

// What stood in the words of a slot that was frozen.
struct Frozen {
  uint64_t words[2] = {0, 0};
};

// Writes a state that expresses `query`, with the usage of the frozen `old` carried over where it
// means the same: a backlog at another pace, a log with more room. A tuple whose clock
// was set back begins anew; its former counts at the origin are a sibling's from now on.
void begin_from(const Tuple& old, const Frozen& frozen, const Tuple& tuple, const Query& query,
                const Birth& birth);

// Whether the query can be charged to the state as it is.
[[nodiscard]] bool fits(const Tuple& tuple, const Query& query);

// Whether the state has moved on more than a window beyond `now`: either the clock was
// set back, or the request took that long to get here.
[[nodiscard]] bool is_ahead_of(const Tuple& tuple, WallTime now);

// Whether a rebuild for the query would keep what was counted. If not, the clock was set back.
[[nodiscard]] bool carries_over(const Tuple& tuple, const Frozen& frozen, const Query& query);

// Frees what the slot owns. No reader can be left.
void end_state(Slot& slot);

// From this instant the tuple's counts influence no decision; of one that is frozen, by what stood
// in it.
[[nodiscard]] WallTime expires_at(const Tuple& tuple);
[[nodiscard]] WallTime expires_at(const Tuple& tuple, const Frozen& frozen);

// What the limit last asked of a window tuple leaves at `now`, as far as is known; by a caller
// that is pinned.
[[nodiscard]] Count remaining_of(const Tuple& tuple, WallTime now);
// The same for another limit.
[[nodiscard]] Count remaining_of(const Tuple& tuple, WallTime now, Count limit);

// Usage at `now` in parts of 2^-20 of the limit last seen.
[[nodiscard]] uint64_t fullness(const Tuple& tuple, WallTime now);
inline constexpr uint64_t kWhole = uint64_t{1} << 20;

// Stops all admissions on the slot; nothing, if a batch is at work on it or it is frozen
// already.
[[nodiscard]] std::optional<Frozen> freeze(const Tuple& tuple);
void thaw(const Tuple& tuple, const Frozen& frozen);

// Whether all that was accepted in windows that still matter is at the origin too.
[[nodiscard]] bool safe_elsewhere(const Tuple& tuple);
[[nodiscard]] bool safe_elsewhere(const Tuple& tuple, const Frozen& frozen);

}  // namespace weir::memory
