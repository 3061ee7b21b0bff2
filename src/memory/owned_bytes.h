// What a tuple owns outside its slot: the annex of a ring or a log, and names that are too long.
// Reserved from the byte budget before the tuple is made, given back when its state ends.

#pragma once

#include "memory/byte_budget.h"
#include "memory/slot.h"

namespace weir::memory {

struct OwnedBytes {
  uint64_t annex = 0;
  uint64_t key = 0;
};

// Of a tuple that would be made for this query.
[[nodiscard]] OwnedBytes owned_bytes(KeyHeader header, const Query& query);
// Of a tuple that was made.
[[nodiscard]] OwnedBytes owned_bytes(const Slot& slot);

// Both parts or neither. A null budget has no limit.
[[nodiscard]] bool reserve(ByteBudget* budget, const OwnedBytes& bytes);
void give_back(ByteBudget* budget, const OwnedBytes& bytes);
[[nodiscard]] bool has_room(const ByteBudget* budget, const OwnedBytes& bytes);

}  // namespace weir::memory
