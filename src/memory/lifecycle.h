// Creates, rebuilds and destroys the state of a tuple of any class. Only the table calls these
// functions, under its locks. All of them may allocate.

#pragma once

#include <optional>

#include "memory/slot.h"

namespace weir::memory {

// The first values of a window tuple besides its window.
struct InitialState {
  uint64_t generation = 0;
  uint64_t freshness = 0;
  uint64_t watch_bits = 0;
};

// Writes the first state of a tuple into an empty slot.
void init_state(const Tuple& tuple, const Query& query, const InitialState& initial);

// The values that the words of a slot had before it was frozen.
struct FrozenWords {
  uint64_t words[2] = {0, 0};
};

// Writes a state that can represent `query`, and carries the usage of the frozen `old` over where
// it keeps its meaning: a backlog at another pace, a log with more capacity. After a clock was set
// back the tuple starts empty; its former counts at the origin then belong to a sibling.
void init_from(const Tuple& old, const FrozenWords& frozen, const Tuple& tuple, const Query& query,
               const InitialState& initial);

// Whether the query can be charged to the current state.
[[nodiscard]] bool fits(const Tuple& tuple, const Query& query);

// Whether the state is more than a window ahead of `now`: either the clock was set back, or the
// request was delayed that long.
[[nodiscard]] bool is_ahead_of(const Tuple& tuple, WallTime now);

// Whether a rebuild for the query would keep the counts. If not, the clock was set back.
[[nodiscard]] bool carries_over(const Tuple& tuple, const FrozenWords& frozen, const Query& query);

// Frees the memory that the slot owns. Needs a slot without readers.
void destroy_state(Slot& slot);

// From this instant on the tuple's counts influence no decision. For a frozen tuple, pass its
// words.
[[nodiscard]] WallTime expires_at(const Tuple& tuple);
[[nodiscard]] WallTime expires_at(const Tuple& tuple, const FrozenWords& frozen);
// Whether this process or another region has admitted something that the origin, which keeps the
// state of the tuple, may not know.
[[nodiscard]] bool has_unreported(const Tuple& tuple);

// A peek at a tuple of another class than windows, as its last answer from the origin was asked.
[[nodiscard]] Query peek_of(const Tuple& tuple, WallTime now);
// What still counts at `now` of what this process has admitted of a tuple that is not of the window
// class, at the rate of the tuple; kMaxCount if that is unknown. The caller holds an epoch guard.
[[nodiscard]] Count used_in(const Tuple& tuple, WallTime now);

// What remains at `now` of the limit last requested of a window tuple, by local knowledge. The
// caller holds an epoch guard.
[[nodiscard]] Count remaining_of(const Tuple& tuple, WallTime now);
// The same for another limit.
[[nodiscard]] Count remaining_of(const Tuple& tuple, WallTime now, Count limit);

// Usage at `now` in units of 2^-20 of the limit last requested.
[[nodiscard]] uint64_t usage_share(const Tuple& tuple, WallTime now);
inline constexpr uint64_t kFullUsage = uint64_t{1} << 20;

// Stops all admissions on the slot. None, if a batch is charging it or it is frozen already.
[[nodiscard]] std::optional<FrozenWords> freeze(const Tuple& tuple);
void thaw(const Tuple& tuple, const FrozenWords& frozen);

// Whether the origin has acknowledged all counts of windows that are not over.
[[nodiscard]] bool fully_acked(const Tuple& tuple);
[[nodiscard]] bool fully_acked(const Tuple& tuple, const FrozenWords& frozen);

}  // namespace weir::memory
