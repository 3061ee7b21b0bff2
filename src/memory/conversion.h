// The usage of a tuple that a request with an algorithm of another class takes over.
//
// A tuple of another class with the same names and duration is a count of its own. When it is
// created, it starts as if the units that count now in the tuples of the other classes had been
// admitted now. Each of those keeps a mark, so that it is done once: users may run two algorithms
// side by side, and a tuple that expires is created again.
//
// Safe from any thread that holds an epoch guard.

#pragma once

#include <cstdint>

#include "memory/slot.h"
#include "memory/tuple_key.h"
#include "weir/time.h"

namespace weir::memory {

// A bit for each class.
using ClassSet = uint8_t;
inline constexpr CellClass kAllClasses[] = {CellClass::kWindow, CellClass::kBacklog,
                                            CellClass::kRing, CellClass::kLog};

[[nodiscard]] constexpr ClassSet set_of(CellClass cell_class) {
  return static_cast<ClassSet>(1 << static_cast<int>(cell_class));
}

// The key with the same names and duration.
[[nodiscard]] TupleKey key_of_class(const TupleKey& key, CellClass cell_class,
                                    const base::KeyedHash& hash);

// The units that count in the tuple, as far as this process knows. Cost of batches that are not
// settled is not included.
[[nodiscard]] Count units_now(const Tuple& tuple, Instant now);

// The classes that have taken over the usage of the tuple, and those beside which it started empty.
[[nodiscard]] ClassSet taken_by(const Tuple& tuple);
void mark_taken(const Tuple& tuple, ClassSet by);

// An open tuple has taken usage over, and the origin must be told before it decides a request on
// the tuple. The mark is the bit of its own class.
[[nodiscard]] inline bool is_open(const Tuple& tuple) {
  return (taken_by(tuple) & set_of(tuple.slot->header.cell_class())) != 0;
}
inline void mark_open(const Tuple& tuple) {
  mark_taken(tuple, set_of(tuple.slot->header.cell_class()));
}
void mark_told(const Tuple& tuple);

// Charges units to a tuple that is not published yet, as admitted by this process.
void seed(const Tuple& tuple, const Query& query, Count units);

}  // namespace weir::memory
