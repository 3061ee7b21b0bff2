// What the regions tell each other of gcra, token_bucket, sliding_window_strict and sliding_log:
// admissions are counted in a usage tuple (memory/usage_key.h), and those of other regions are
// charged to the state of the counted tuple. With an origin that state is there, and Steps sends
// it the counts. Without one it is in this process, which is then its region.

#include <utility>
#include <vector>

#include "decide/engine.h"
#include "memory/foreign_charge.h"
#include "memory/lifecycle.h"
#include "memory/usage_key.h"
#include "memory/window_cells.h"
#include "regional/exact_share.h"
#include "regional/foreign_use.h"

namespace weir::decide {

using memory::CellClass;
using memory::CellDecision;
using memory::DecisionStatus;
using regional::ReadRequirement;

// The usage tuple of a request. Its limit is that of the publish rule: the whole limit, also where
// this process decides by a part of it. It denies nothing.
static std::optional<RequestContext> usage_context(Instant now, const memory::TupleKey& key,
                                                   memory::Query query,
                                                   const base::KeyedHash& hash) {
  if (query.whole) {
    query.limit = query.whole->limit;
    query.ask.capacity = query.whole->capacity;
  }
  const auto usage = memory::usage_key(key, regional::horizon_of(query), hash);
  if (!usage) return std::nullopt;
  RequestContext context;
  context.now = now;
  context.key = *usage;
  // Sliding: the publish rule then counts what the last window still holds back.
  context.query = {.now = now.wall,
                   .algorithm = Algorithm::kSlidingWindow,
                   .duration = usage->header().duration(),
                   .limit = query.ask.capacity,
                   .ask = {.capacity = memory::kMaxCount, .cost = query.ask.cost}};
  context.consistency = Consistency::kRelaxed;
  return context;
}

void Engine::count_for_regions(Instant now, const memory::TupleKey& key,
                               const memory::Query& query) {
  if (!counts_for_regions() || query.ask.cost == 0) return;
  const auto usage = usage_context(now, key, query, state_.tuples->hash);
  if (usage) (void)decider_.decide(*usage);
}

// The usage tuple of a request, if it must be read; created if there is none. The answer is merged
// into it, where the step finds it.
std::optional<Engine::Sources::Window> Engine::unread_usage(Instant now,
                                                            const regional::StepRequest& request) {
  const bool counted = counts_for_regions() &&
                       request.key->header().cell_class() != CellClass::kWindow &&
                       request.query->ask.cost > 0;
  if (!counted) return std::nullopt;
  auto usage = usage_context(now, *request.key, *request.query, state_.tuples->hash);
  if (!usage) return std::nullopt;
  const ReadRequirement requirement = read_requirement(*usage, Waiting::kImpossible);
  if (!regional::is_read(requirement)) return std::nullopt;
  return Sources::Window{.key = usage->key, .requirement = requirement};
}

bool Engine::is_in_table(const memory::TupleKey& key) const {
  const epoch::Guard guard;
  return static_cast<bool>(state_.tuples->table.find(key));
}

regional::ForeignUse Engine::foreign_use_of(const RequestContext& context,
                                            const memory::TupleKey& usage) const {
  const auto at = algorithms::position_of(context.now.wall, usage.header().duration());
  const global::LedgerTotals totals = state_.global->totals(usage, at.sequence);
  return regional::foreign_use(context.query, at,
                               {.current = totals.current.foreign, .previous = totals.last.foreign},
                               state_.region->other_regions.load(std::memory_order_relaxed));
}

// What other regions have admitted of a tuple that this process does not have, and what may still
// count of it.
Count Engine::foreign_units(const RequestContext& context) const {
  const auto usage = usage_context(context.now, context.key, context.query, state_.tuples->hash);
  return usage ? foreign_use_of(context, usage->key).at_first : 0;
}

// Without a tuple for the counts they are left out: the table is full, and the exported bound says
// so.
void Engine::charge_foreign(RequestContext& context) {
  const memory::Query& query = context.query;
  // A cost that never fits is denied whatever others have admitted.
  if (query.ask.cost > query.ask.capacity) return;
  const auto usage = usage_context(context.now, context.key, query, state_.tuples->hash);
  if (!usage || memory::mutated(memory::Mutation::kForeignNotCharged)) return;
  if (query.ask.cost == 0 && !is_in_table(context.key)) {
    context.foreign_use = foreign_use_of(context, usage->key).at_first;
    return;
  }
  regional::ForeignUse use;
  memory::ForeignCharge::Claim claim;
  const auto learn = [&](const memory::Tuple& tuple) {
    if (!memory::WindowCells(tuple).fits(usage->query)) {
      return CellDecision{.status = DecisionStatus::kRebuild};
    }
    use = regional::foreign_use(query, context.now.wall, tuple,
                                state_.region->other_regions.load(std::memory_order_relaxed));
    const memory::ForeignCharge charge(tuple);
    // A peek may have a smaller limit than the requests.
    if (query.ask.cost > 0 || !charge.is_first(use.sequence)) {
      claim = charge.claim(use.sequence, use.current, use.last);
    }
    return CellDecision{};
  };
  if (query.ask.cost > 0) {
    (void)decider_.with_tuple(*usage, learn);
  } else {
    const epoch::Guard guard;
    if (const memory::Tuple tuple = state_.tuples->table.find(usage->key)) (void)learn(tuple);
  }
  const Count due = claim.first ? std::min(claim.units(), use.at_first) : claim.units();
  if (due == 0) return;
  const Count units = std::min(due, use.most);
  bool charged = false;
  const auto decided = decider_.with_tuple(context, [&](const memory::Tuple& tuple) {
    // A state that was saved and restored has most of it.
    const Count known = claim.first ? memory::used_in(tuple, context.now.wall) : 0;
    const Count more = base::saturating_sub(units, known);
    CellDecision result;
    if (more > 0) result.status = memory::charge_all(tuple, query, more);
    charged = result.status == DecisionStatus::kDecided;
    return result;
  });
  if (!decided) {
    // The table is full.
    memory::Query whole = query;
    whole.ask.cost = units;
    state_.tuples->sketch.add(state_.tuples->sketch_subject(context.key), whole);
    charged = true;
  }
  // The next request charges what does not fit the limit of this one, or all, if other threads
  // moved the tuple again and again.
  const Count rest = charged ? due - units : due;
  if (rest == 0) return;
  const epoch::Guard guard;
  const memory::Tuple tuple = state_.tuples->table.find(usage->key);
  if (tuple) memory::ForeignCharge(tuple).give_back(use.sequence, claim, rest);
}

}  // namespace weir::decide
