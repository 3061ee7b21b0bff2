// The memory that a tuple owns outside its slot: the buffer of a ring or a log, and names that do
// not fit into the slot. It is reserved from the byte budget before the tuple is created and
// released when its state is destroyed.

#pragma once

#include "memory/byte_budget.h"
#include "memory/slot.h"

namespace weir::memory {

struct OwnedBytes {
  uint64_t buffer = 0;
  uint64_t key = 0;
};

// For a tuple that this query would create.
[[nodiscard]] OwnedBytes owned_bytes(KeyHeader header, const Query& query);
// For an existing tuple.
[[nodiscard]] OwnedBytes owned_bytes(const Slot& slot);

// Reserves both parts or neither. A null budget has no limit.
[[nodiscard]] bool reserve(ByteBudget* budget, const OwnedBytes& bytes);
void release(ByteBudget* budget, const OwnedBytes& bytes);
[[nodiscard]] bool has_space(const ByteBudget* budget, const OwnedBytes& bytes);

}  // namespace weir::memory
