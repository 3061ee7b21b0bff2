#include "regional/loss_bound.h"

#include "base/wide.h"
#include "epoch/epoch.h"
#include "memory/window_cells.h"
#include "regional/freshness.h"
#include "regional/loss_share.h"

namespace weir::regional {

using memory::WindowCells;

namespace {

Acknowledged acknowledged_in(const WindowCells& cells, int64_t sequence) {
  if (!cells.in_tag_range(sequence)) return {};
  return {.own = memory::count_in(cells.own(sequence), sequence),
          .acked = memory::count_in(cells.acked(sequence), sequence),
          .others = memory::count_in(cells.others(sequence), sequence)};
}

}  // namespace

memory::OwnBound bound_while_late(const RegionState& region, memory::TupleStore& tuples,
                                  const memory::TupleKey& key, const memory::Query& query) {
  algorithms::Position at = algorithms::position_of(query.now, query.duration);
  memory::OwnBound bound{.most = 0, .sequence = at.sequence, .retry_after = kReadPause};
  const epoch::Guard guard;
  const memory::Tuple tuple = tuples.table.find(key);
  if (!tuple) return bound;
  const WindowCells cells(tuple);
  if (cells.newest() > at.sequence) {
    at = {.sequence = cells.newest(), .offset = Millis(0), .width = query.duration};
  }
  bound.sequence = at.sequence;
  const WindowCells::Told told = cells.told(at.sequence);
  const Acknowledged last = acknowledged_in(cells, at.sequence - 1);
  const bool forgets = last.own > 0 && memory::mutated(memory::Mutation::kLateForgetsOwnLast);
  const Count carried = query.algorithm == Algorithm::kSlidingWindow
                            ? algorithms::carried_over(at, (forgets ? 0 : last.own) + last.others)
                            : 0;
  const Count left = base::saturating_sub(
      query.ask.capacity, told.own + acknowledged_in(cells, at.sequence).others + carried);
  // A tuple that was evicted and created again gets no other allowance, unless the counts read have
  // what it had admitted. Nor one without the counts of the other regions, as long as other
  // requests are answered: what this process knew of them was evicted, too.
  const Count evicted = tuples.evicted_count(key, query);
  const Count unread =
      base::saturating_sub(evicted, memory::count_in(cells.siblings(at.sequence), at.sequence));
  const bool forgot_regions =
      evicted > 0 && region.reads_regions && freshness_of(cells).needs_regions();
  if (forgot_regions && region.origin->reach() == Reach::kPrompt) return bound;
  // A process that has not heard of the others has no allowance.
  const uint64_t parts = region.allowance.last().parts;
  const Count allowance = parts > 0 ? left / parts : 0;
  bound.most = told.own + base::saturating_sub(allowance, unread);
  return bound;
}

memory::OwnBound bound_while_lost(const RegionState& region, memory::TupleStore& tuples,
                                  const memory::TupleKey& key, const memory::Query& query,
                                  OnOriginLoss policy) {
  const Count evicted = tuples.evicted_count(key, query);
  if (policy == OnOriginLoss::kLocal && evicted == 0) return {};
  algorithms::Position at = algorithms::position_of(query.now, query.duration);
  memory::OwnBound bound{.most = 0, .sequence = at.sequence, .retry_after = kReadPause};
  if (policy == OnOriginLoss::kDeny) return bound;
  const Fleet fleet{.nodes = region.origin->live_nodes(), .rank = region.origin->rank()};
  Acknowledged current, last;
  const epoch::Guard guard;
  if (const memory::Tuple tuple = tuples.table.find(key)) {
    const WindowCells cells(tuple);
    if (cells.newest() > at.sequence) {
      at = {.sequence = cells.newest(), .offset = Millis(0), .width = query.duration};
    }
    current = acknowledged_in(cells, at.sequence);
    last = acknowledged_in(cells, at.sequence - 1);
  }
  bound.sequence = at.sequence;
  const Count most =
      policy == OnOriginLoss::kLocal
          ? query.ask.capacity
          : max_own_count(at, query.algorithm, query.ask.capacity, current, last, fleet);
  bound.most = base::saturating_sub(most, evicted);
  return bound;
}

}  // namespace weir::regional
