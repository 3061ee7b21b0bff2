// The state of one tuple as numbers, for a process that keeps it over a restart: of the classes
// that no origin and no ledger knows, backlogs, rings and logs.
//
// All times in it are of the wall clock, so a state that is read later has drained meanwhile, as if
// the process had slept. What cannot be told apart while others charge errs on the strict side, and
// so does what a batch may yet take back.

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

// The state of a tuple, and notes that it was saved; none, if it is of the window class, is over at
// `now`, or, with kChanged, has not changed since. By a pinned caller, one at a time.
[[nodiscard]] std::optional<SavedState> save_state(const Tuple& tuple, WallTime now, Saving saving);

// What a tuple for this state is made with; none if the state makes no sense.
[[nodiscard]] std::optional<Query> query_for(const SavedState& state, WallTime now);

// Gives a tuple that was made with query_for(), and that nobody has found yet, the saved state.
void restore_state(const Tuple& tuple, const SavedState& state);

// The units in it that still count at `now`, at least.
[[nodiscard]] Count units_in(const SavedState& state, WallTime now);

// As bytes, for a file of this machine.
void encode_state(const SavedState& state, std::string& record);
[[nodiscard]] std::optional<SavedState> decode_state(std::string_view record);

}  // namespace weir::memory
