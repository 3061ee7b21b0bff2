// The tuple in which a region counts, for the other regions, what it admits of a tuple whose state
// cannot be merged: gcra, token_bucket, sliding_window_strict, sliding_log.
//
// It is a sliding window of the same workspace and namespace: the publish rule then also counts
// what the last window still holds back. Its identifier is that of the counted
// tuple, a separator, the class and the duration of the counted tuple. Its windows are about as
// long as an admission counts. Their length is a power of two and 1 ms, which nobody chooses for a
// limit.
//
// Pure.

#pragma once

#include <optional>

#include "memory/slot.h"
#include "memory/tuple_key.h"
#include "weir/request.h"

namespace weir::memory {

// A window in which all that counts now, for `horizon`, fits.
[[nodiscard]] Millis usage_width(Millis horizon);

// Whether windows of this length are those of usage tuples.
[[nodiscard]] bool is_usage_width(Millis duration);

// None: the identifier is too long, or the counts of the namespace stay in the region.
[[nodiscard]] std::optional<TupleKey> usage_key(const TupleKey& counted, Millis horizon,
                                                const base::KeyedHash& hash);
// The tuple that a usage tuple counts; none: `tuple` is not one.
[[nodiscard]] std::optional<TupleKey> counted_key(const Slot& slot, const base::KeyedHash& hash);
// Whether a tuple is a usage tuple.
[[nodiscard]] bool is_usage_tuple(const TupleKey& key);
[[nodiscard]] bool is_usage_tuple(const std::string& encoded);

}  // namespace weir::memory
