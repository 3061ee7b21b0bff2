#include "regional/conversion.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "algorithms/windows.h"
#include "base/wide.h"
#include "memory/lifecycle.h"
#include "memory/usage_key.h"
#include "memory/window_cells.h"
#include "regional/exact_share.h"
#include "regional/freshness.h"

namespace weir::regional {

using memory::CellClass;
using memory::ClassSet;
using memory::Tuple;
using memory::TupleKey;
using memory::WindowCells;

// In two windows of the usage tuple.
Count units_of_region(const memory::TupleStore& tuples, const RegionState& region,
                      const TupleKey& key, const Tuple& tuple, Instant now, Count units) {
  const memory::Query last = memory::peek_of(tuple, now.wall);
  const auto usage_key = memory::usage_key(key, horizon_of(last), tuples.hash);
  const Tuple usage = usage_key ? tuples.table.find(*usage_key) : Tuple{};
  if (!usage) return units;
  const WindowCells cells(usage);
  // It was not read since it was created.
  if (region.reads_regions && freshness_of(cells).needs_regions()) return units;
  const int64_t current =
      algorithms::position_of(now.wall, usage_key->header().duration()).sequence;
  Count counted = 0;
  for (const int64_t sequence : {current, current - 1}) {
    counted += memory::count_in(cells.own(sequence), sequence) +
               memory::count_in(cells.siblings(sequence), sequence);
  }
  return std::min(units, counted);
}

Conversion conversion_to(const memory::TupleStore& tuples, const RegionState& region,
                         const TupleKey& key, const memory::Query& query, Instant now,
                         Purpose purpose) {
  Conversion conversion;
  const ClassSet others = tuples.other_classes(key);
  if (others == 0) return conversion;
  const CellClass own = key.header().cell_class();
  for (const CellClass other : memory::kAllClasses) {
    if ((others & memory::set_of(other)) == 0) continue;
    const TupleKey source_key = memory::key_of_class(key, other, tuples.hash);
    const Tuple source = tuples.table.find(source_key);
    if (!source) continue;
    if (purpose == Purpose::kTell && memory::is_open(source) &&
        !memory::mutated(memory::Mutation::kConvertedFromOpen)) {
      continue;
    }
    if ((memory::taken_by(source) & memory::set_of(own)) != 0) {
      conversion.beside |= memory::set_of(other);
      continue;
    }
    Count units = memory::units_now(source, now);
    if (units == 0 && memory::expires_at(source) <= now.wall) continue;
    // The counts of a window are published, and other regions take over their own part.
    const bool publishes = region.reads_regions || tuples.scope == memory::Scope::kGlobal;
    if (own == CellClass::kWindow && publishes) {
      units = units_of_region(tuples, region, source_key, source, now, units);
    }
    conversion.from |= memory::set_of(other);
    conversion.units = std::max(conversion.units, units);
  }
  conversion.units = std::min(conversion.units, query.ask.capacity);
  return conversion;
}

void apply(const Conversion& conversion, const Tuple& tuple, const memory::Query& query,
           memory::Scope scope) {
  if (conversion.beside != 0) memory::mark_taken(tuple, conversion.beside);
  if (conversion.units == 0) return;
  const bool is_window = tuple.slot->header.cell_class() == CellClass::kWindow;
  if (!is_window || scope != memory::Scope::kRegion) {
    return memory::seed(tuple, query, conversion.units);
  }
  const int64_t sequence = algorithms::position_of(query.now, query.duration).sequence;
  (void)WindowCells(tuple).raise_siblings(sequence, conversion.units);
}

void end_conversion(const memory::TupleStore& tuples, const TupleKey& key, ClassSet from) {
  const epoch::Guard guard;
  if (const Tuple tuple = tuples.table.find(key)) memory::mark_told(tuple);
  for (const CellClass other : memory::kAllClasses) {
    if ((from & memory::set_of(other)) == 0) continue;
    const Tuple source = tuples.table.find(memory::key_of_class(key, other, tuples.hash));
    if (source) memory::mark_taken(source, memory::set_of(key.header().cell_class()));
  }
}

void tell_window(const std::shared_ptr<memory::TupleStore>& tuples, const RegionState& region,
                 const TupleKey& key, const memory::Query& query, const Conversion& conversion) {
  StepStore* const steps = region.origin ? region.origin->step_store() : nullptr;
  if (conversion.units == 0 || steps == nullptr || !accepts_writes(region.origin->reach())) {
    return end_conversion(*tuples, key, conversion.from);
  }
  std::vector<CellStep> call;
  call.push_back(converted_step(region, key, query, conversion.units));
  // Weak: an origin that never answers must not keep the tuples alive.
  steps->step(std::move(call), [weak = std::weak_ptr(tuples), key, from = conversion.from](
                                   const Result<std::vector<StepTotals>>& totals) {
    const auto alive = weak.lock();
    if (alive && totals) end_conversion(*alive, key, from);
  });
}

CellStep converted_step(const RegionState& region, const TupleKey& key, const memory::Query& query,
                        Count units) {
  const auto at = algorithms::position_of(query.now, query.duration);
  return {.cell = {key.encoded(), at.sequence},
          .writer = kConverted,
          .own = units,
          .duration = at.width,
          .expires_at = WallTime((at.sequence + 2) * at.width),
          .limit_seen = region.reads_regions ? query.limit : 0,
          .due = region.reads_regions ? Due::kRule : Due::kNever,
          .asks = {}};
}

ExactCall charge_past(const Component& writer, const TupleKey& key, const memory::Query& query,
                      const Past& past, uint64_t number) {
  const Count capacity = query.ask.capacity;
  return {.tuple = key.encoded(),
          .algorithm = query.algorithm,
          .limit = query.limit,
          .duration = query.duration,
          .writer = writer,
          .number = number,
          .capacity = capacity,
          .foreign_sequence = past.number,
          .foreign = past.units,
          .foreign_width = Millis(static_cast<int64_t>(past.changed)),
          .foreign_at_first = past.units,
          .foreign_most = capacity,
          .asks = {{.cost = 0, .capacity = capacity}}};
}

}  // namespace weir::regional
