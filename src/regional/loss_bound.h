// The bound on a process's own count while the origin is lost, by the chosen loss policy.

#pragma once

#include "memory/slot.h"
#include "memory/tuple_key.h"
#include "memory/tuple_store.h"
#include "regional/region_state.h"
#include "weir/request.h"

namespace weir::regional {

// The bound for one request on a window tuple. Under every policy one process accepts no more than
// the limit, evicted counts included. Takes an epoch guard.
[[nodiscard]] memory::OwnBound bound_while_lost(const RegionState& region,
                                                memory::TupleStore& tuples,
                                                const memory::TupleKey& key,
                                                const memory::Query& query, OnOriginLoss policy);

// The bound while an answer of the origin is late: the last allowance, however old it is, less what
// was evicted. Takes an epoch guard.
[[nodiscard]] memory::OwnBound bound_while_late(const RegionState& region,
                                                memory::TupleStore& tuples,
                                                const memory::TupleKey& key,
                                                const memory::Query& query);

}  // namespace weir::regional
