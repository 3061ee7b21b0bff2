// What a new tuple takes over from the tuples of other classes, and how the origin is told; see
// memory/conversion.h.
//
// All processes of a region know much the same usage, so it must not be charged once for each of
// them. A window has a shared component for it, kConverted, of which the largest value counts. A
// state that the origin keeps whole charges the largest amount that it was told, once, as it does
// for other regions.
//
// Safe from any thread.

#pragma once

#include <memory>

#include "memory/conversion.h"
#include "memory/tuple_store.h"
#include "regional/region_state.h"
#include "weir/origin.h"

namespace weir::regional {

struct Conversion {
  Count units = 0;              // to take over; at most the capacity of the request
  memory::ClassSet from = 0;    // the classes that it is taken from
  memory::ClassSet beside = 0;  // classes with a tuple from which it was taken before

  [[nodiscard]] bool exists() const { return (from | beside) != 0; }
};

// Of the units of a tuple that is not of the window class, those that this region has admitted; all
// of them if it does not count them for other regions, or does not know. The caller holds an epoch
// guard.
[[nodiscard]] Count units_of_region(const memory::TupleStore& tuples, const RegionState& region,
                                    const memory::TupleKey& key, const memory::Tuple& tuple,
                                    Instant now, Count units);

enum class Purpose : uint8_t {
  kCreate,  // a tuple that is created now takes it over
  // The origin is told what an open tuple has taken over. Not from a tuple that is open itself: it
  // may have taken it over from this one.
  kTell,
};

// What is taken over for the query. The caller holds an epoch guard.
[[nodiscard]] Conversion conversion_to(const memory::TupleStore& tuples, const RegionState& region,
                                       const memory::TupleKey& key, const memory::Query& query,
                                       Instant now, Purpose purpose);

// Writes it to the new tuple before it is published. With an origin, units in a window are those of
// siblings, because this process must not replay them.
void apply(const Conversion& conversion, const memory::Tuple& tuple, const memory::Query& query,
           memory::Scope scope);

// The origin was told, or is not to be told: the tuple of `key` is not open any more, and the class
// of `key` has taken over the usage of these classes.
void end_conversion(const memory::TupleStore& tuples, const memory::TupleKey& key,
                    memory::ClassSet from);

// Raises kConverted of the current window at the origin, then ends the conversion. Without an
// origin, or if it cannot be written, only ends it.
void tell_window(const std::shared_ptr<memory::TupleStore>& tuples, const RegionState& region,
                 const memory::TupleKey& key, const memory::Query& query,
                 const Conversion& conversion);

// A step that raises kConverted of the window of the query to `units`; 0: it only reads.
[[nodiscard]] CellStep converted_step(const RegionState& region, const memory::TupleKey& key,
                                      const memory::Query& query, Count units);

// Usage by past settings, for which a state that the origin keeps whole is charged. Of each change
// it charges the largest number of units that any process tells, once.
struct Past {
  // Stands for the width of the window in which other regions are counted, which is never so short.
  enum class Changed : uint8_t { kAlgorithm = 1, kDuration = 2 };
  Changed changed = Changed::kAlgorithm;
  int64_t number = 1;  // of the change: of two, the later has the greater one
  Count units = 0;
};

// The call that charges it, before the origin decides a request. `writer`: of a generation that no
// tuple has. `number`: as in ExactCall.
[[nodiscard]] ExactCall charge_past(const Component& writer, const memory::TupleKey& key,
                                    const memory::Query& query, const Past& past, uint64_t number);

}  // namespace weir::regional
