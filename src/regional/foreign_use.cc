#include "regional/foreign_use.h"

#include <algorithm>

#include "base/wide.h"
#include "memory/window_cells.h"
#include "regional/exact_share.h"

namespace weir::regional {

ForeignUse foreign_use(const memory::Query& query, const algorithms::Position& at,
                       const algorithms::WindowCounts& counts, uint32_t other_regions) {
  const Count burst = query.ask.capacity;
  ForeignUse use{.sequence = at.sequence,
                 .current = counts.current,
                 .last = counts.previous,
                 .width = at.width,
                 .most = burst};
  // A state that knows nothing charges what may still count: of the last window what was admitted
  // at its end.
  const memory::CellClass kind = memory::class_of(query.algorithm);
  if (kind != memory::CellClass::kBacklog) {
    const bool last_counts = use.last > 0 && at.offset < horizon_of(query) &&
                             !base::mutated(base::Mutation::kFirstChargeWithoutLast);
    use.at_first = use.current + (last_counts ? use.last : 0);
    // All leaves a ring together. A log has one stamp for each unit of its limit.
    if (kind == memory::CellClass::kRing) use.most = kMaxLimit;
    return use;
  }
  // Of a backlog no more than a burst, unless more cannot have drained.
  const auto drained_in = [&](Millis time) {
    return base::mul_div(query.limit, static_cast<uint64_t>(time.count()),
                         static_cast<uint64_t>(query.duration.count()));
  };
  const Count drained = drained_in(at.offset);
  const Count may_count = use.current + base::saturating_sub(use.last, drained);
  const Count must_count =
      std::max(base::saturating_sub(use.current, drained + 1),
               base::saturating_sub(use.current + use.last, drained_in(at.offset + at.width) + 1));
  use.at_first = std::max(std::min(may_count, burst), must_count);
  // All regions can admit a burst before they know of each other.
  if (!base::mutated(base::Mutation::kForeignCutToABurst)) use.most = burst * other_regions;
  return use;
}

ForeignUse foreign_use(const memory::Query& query, WallTime now, const memory::Tuple& usage,
                       uint32_t other_regions) {
  const memory::WindowCells cells(usage);
  const auto at = algorithms::position_of(now, usage.slot->header.duration());
  return foreign_use(
      query, at,
      {.current = memory::count_in(cells.foreign(at.sequence), at.sequence),
       .previous = memory::count_in(cells.foreign(at.sequence - 1), at.sequence - 1)},
      other_regions);
}

}  // namespace weir::regional
