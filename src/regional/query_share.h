// The part of a request that a process may admit by itself while the origin cannot decide it, for
// the algorithms whose state is not made of counts: limit and burst divided by the number of
// processes, at least 1 each.
//
// Pure.

#pragma once

#include <algorithm>
#include <cstdint>

#include "algorithms/backlog.h"
#include "memory/slot.h"
#include "weir/origin.h"

namespace weir::regional {

// Whether a full burst drains soon enough for an origin; see kMaxExactDrain.
[[nodiscard]] inline bool drains_in_time(Algorithm algorithm, Count limit, Millis duration,
                                         Count burst) {
  if (memory::class_of(algorithm) != memory::CellClass::kBacklog) return true;
  const algorithms::Pace pace = algorithms::pace_of(limit, duration);
  return base::Wide{burst} * pace.num <=
         base::Wide{static_cast<uint64_t>(kMaxExactDrain.count())} * pace.den;
}

inline void divide(memory::Query& query, uint32_t nodes) {
  query.ask.capacity = std::max<Count>(query.ask.capacity / nodes, 1);
  if (memory::class_of(query.algorithm) != memory::CellClass::kBacklog) return;
  query.limit = std::max<Count>(query.limit / nodes, 1);
  const auto fits = [&] {
    return algorithms::representable(algorithms::pace_of(query.limit, query.duration), query.limit,
                                     query.ask.capacity);
  };
  if (fits()) return;
  // A rate that cannot be represented is rounded down: first to whole units per ms.
  const auto duration = static_cast<uint64_t>(query.duration.count());
  if (query.limit >= duration) query.limit -= query.limit % duration;
  if (fits()) return;
  query.limit = std::min(query.limit, algorithms::kAlwaysRepresentable);
  query.ask.capacity = std::min(query.ask.capacity, algorithms::kAlwaysRepresentable);
  if (fits()) return;
  // Durations above kMaxDuration: one unit is at most kMaxAnyDuration, 2^39 pulses.
  constexpr Count kSmall = Count{1} << 22;
  query.limit = std::min(query.limit, kSmall);
  query.ask.capacity = std::min(query.ask.capacity, kSmall);
}

}  // namespace weir::regional
