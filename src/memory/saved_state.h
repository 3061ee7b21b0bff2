// Saves and restores the state of one tuple over a restart of the process. Only for backlogs,
// rings and logs: without an origin, and for relaxed requests, their state is in this process only.
//
// All times are wall-clock times, so a state that is restored later has drained in between, as if
// the process had been suspended. Concurrent charges and tentative charges of a batch err on the
// strict side.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/slot.h"

namespace weir::memory {

struct SavedState {
  std::string key;  // see encode_key()
  std::vector<uint64_t> words;
};

enum class Saving : uint8_t { kChanged, kAll };

// Returns the state of a tuple and remembers that it was saved. None, if the tuple is of the window
// class, has expired at `now`, or, with kChanged, has not changed since it was last saved. The
// caller holds an epoch guard. One thread at a time.
[[nodiscard]] std::optional<SavedState> save_state(const Tuple& tuple, WallTime now, Saving saving);

// The query that creates a tuple for this state; none if the state is invalid.
[[nodiscard]] std::optional<Query> query_for(const SavedState& state, WallTime now);

// Writes the saved state to a tuple that was created with query_for() and is not published yet.
void restore_state(const Tuple& tuple, const SavedState& state);

// An upper bound of the units that still count at `now`.
[[nodiscard]] Count units_in(const SavedState& state, WallTime now);

// As bytes, for a file of this machine (native byte order).
void encode_state(const SavedState& state, std::string& record);
[[nodiscard]] std::optional<SavedState> decode_state(std::string_view record);

}  // namespace weir::memory
