#include "decide/decider.h"

#include <algorithm>

#include "base/wide.h"
#include "memory/backlog_cell.h"
#include "memory/lifecycle.h"
#include "memory/log_cell.h"
#include "memory/ring_cell.h"
#include "memory/window_cells.h"
#include "regional/conversion.h"
#include "regional/freshness.h"

namespace weir::decide {

using memory::CellClass;
using memory::CellDecision;
using memory::DecisionStatus;
using memory::Effect;
using memory::Tuple;
using memory::WindowCells;
using telemetry::Stat;

CellDecision Decider::decide_cells(const Tuple& tuple, const memory::Query& query, Effect effect) {
  switch (tuple.slot->header.cell_class()) {
    [[likely]] case CellClass::kWindow : return WindowCells(tuple).decide(query, effect);
    case CellClass::kBacklog: return memory::BacklogCell(tuple).decide(query, effect);
    case CellClass::kRing: return memory::RingCell(tuple).decide(query, effect);
    case CellClass::kLog: break;
  }
  return memory::LogCell(tuple).decide(query, effect);
}

CellDecision Decider::decide_counts(const memory::Query& query,
                                    const algorithms::WindowCounts& counts) {
  const auto at = algorithms::position_of(query.now, query.duration);
  CellDecision result;
  result.sequence = at.sequence;
  result.decision = query.algorithm == Algorithm::kSlidingWindow
                        ? algorithms::decide_sliding(at, counts, query.ask)
                        : algorithms::decide_fixed(at, counts, query.ask);
  if (memory::class_of(query.algorithm) != CellClass::kWindow) result.decision.reset = query.now;
  return result;
}

CellDecision Decider::decide_after(const memory::Query& query, Count units) {
  CellDecision result;
  switch (memory::class_of(query.algorithm)) {
    case CellClass::kBacklog: {
      const algorithms::Pace pace = algorithms::pace_of(query.limit, query.duration);
      algorithms::Backlog backlog = algorithms::empty_backlog(query.now, query.duration);
      backlog.tat = algorithms::charged(query.now, backlog, pace, units);
      result.decision = algorithms::decide_backlog(query.now, backlog, pace, query.ask);
      break;
    }
    case CellClass::kRing: {
      algorithms::RingCounts counts{};
      counts.back() = units;
      const auto at = algorithms::position_of(query.now, algorithms::ring_width(query.duration));
      result.decision = algorithms::decide_ring(at, counts, query.ask);
      break;
    }
    case CellClass::kLog:
    case CellClass::kWindow:
      result.decision = algorithms::decide_log(
          query.now, query.duration, query.ask,
          [&](Count back) { return back <= units ? query.now : algorithms::kNoStamp; });
      break;
  }
  return result;
}

CellDecision Decider::decide_without_tuple(const RequestContext& context) const {
  const auto at = algorithms::position_of(context.query.now, context.query.duration);
  algorithms::WindowCounts region = context.region_counts.value_or(algorithms::WindowCounts{});
  algorithms::WindowCounts foreign;
  if (state_.global && context.cell_class() == CellClass::kWindow) {
    const global::LedgerTotals totals = context.ledger_totals
                                            ? *context.ledger_totals
                                            : state_.global->totals(context.key, at.sequence);
    foreign = {.current = totals.current.foreign, .previous = totals.last.foreign};
    // Our own row is a lower bound of the region's count; the origin may have lost counts.
    region = {.current = std::max(region.current, totals.current.own_region),
              .previous = std::max(region.previous, totals.last.own_region)};
  }
  // The origin may know it already.
  const Count taken = taken_over(context).units;
  region.current = std::max(region.current, taken);
  const algorithms::WindowCounts counts{.current = region.current + foreign.current,
                                        .previous = region.previous + foreign.previous};
  const Count used = base::saturating_add(taken, context.foreign_use);
  CellDecision result = used > 0 && context.cell_class() != CellClass::kWindow
                            ? decide_after(context.query, used)
                            : decide_counts(context.query, counts);
  result.evidence.siblings = region.current;
  result.evidence.foreign = foreign.current;
  if (context.query.algorithm == Algorithm::kSlidingWindow) {
    result.evidence.previous = algorithms::carried_over(at, counts.previous);
  }
  return result;
}

bool Decider::is_late(const Tuple& tuple, WallTime requested) const {
  return memory::is_ahead_of(tuple, requested) &&
         !memory::is_ahead_of(tuple, state_.tuples->clock.now().wall);
}

// Calls attempt(context); while the request is late, again at the present time. Empty: every
// attempt was late.
template <typename Attempt>
static auto retry_late(const RequestContext& context, const Clock& clock, const Attempt& attempt) {
  auto answer = attempt(context);
  for (int retry = 0; !answer && retry < kMaxLateRetries; ++retry) {
    RequestContext again = context;
    again.set_time(clock.now());
    answer = attempt(again);
  }
  return answer;
}

CellDecision Decider::deny_for_one_tick(const RequestContext& context) {
  CellDecision denial = decide_counts(context.query, {});
  memory::deny_for_one_tick(context.query, denial.decision);
  denial.decision.remaining = 0;
  return denial;
}

CellDecision Decider::decide(const RequestContext& context) {
  if (context.query.ask.cost == 0) {
    if (const auto known = peek(context)) return *known;
    return decide_without_tuple(context);
  }
  const auto result =
      retry_late(context, state_.tuples->clock,
                 [this](const RequestContext& attempt) { return try_decide(attempt); });
  return result ? *result : deny_for_one_tick(context);
}

std::optional<CellDecision> Decider::peek(const RequestContext& context) {
  const auto known =
      retry_late(context, state_.tuples->clock,
                 [this](const RequestContext& attempt) { return try_peek(attempt); });
  return known ? *known : deny_for_one_tick(context);
}

std::optional<CellDecision> Decider::try_decide(const RequestContext& context) {
  const memory::Query& query = context.query;
  const auto decided = with_tuple(context, [&](const Tuple& tuple) {
    CellDecision result = decide_cells(tuple, query, Effect::kConsume);
    // The denial may be due to a batch that will take its cost back. Batches are short: retry a few
    // times, then the denial stands.
    constexpr int kMaxRetries = 100;
    for (int retry = 0; retry < kMaxRetries && result.status == DecisionStatus::kDecided &&
                        result.decision.outcome == Outcome::kDenied &&
                        memory::tentative_amount(tuple.cold->tentative) != 0;
         ++retry) {
      memory::cpu_relax();
      result = decide_cells(tuple, query, Effect::kConsume);
    }
    if (result.status != DecisionStatus::kDecided) return result;
    if (result.decision.admitted()) {
      mark_charged(tuple, query, result);
    } else if (result.decision.outcome == Outcome::kDenied) {
      mark_denied(tuple, query);
    }
    set_accuracy(tuple, query, result);
    return result;
  });
  if (decided && decided->status == DecisionStatus::kLate) return std::nullopt;
  if (decided) return decided;
  CellDecision result;
  if (while_absent(context, [&] { result = decide_in_sketch(context, Effect::kConsume); })) {
    return result;
  }
  // Another thread has just created the tuple.
  return deny_for_one_tick(context);
}

CellDecision Decider::decide_in_sketch(const RequestContext& context, Effect effect) const {
  memory::TupleStore& tuples = *state_.tuples;
  if (!tuples.table.has_memory_for(context.key, context.query)) {
    state_.counters->add(Stat::kNoMemory);
  }
  const Count evicted = tuples.evicted_count(context.key, context.query);
  memory::Query query = context.query;
  // The bound is on what was accepted since, the sketch adds the rest.
  if (query.bound.is_set()) {
    query.ask.capacity =
        std::min(query.ask.capacity, base::saturating_add(query.bound.most, evicted));
  }
  CellDecision result =
      tuples.sketch.decide(tuples.sketch_subject(context.key), query, effect, evicted);
  result.approximate = true;
  if (result.decision.admitted() || query.ask.capacity == context.query.ask.capacity) return result;
  if (query.ask.cost > context.query.ask.capacity) return result;
  result.decision.outcome = Outcome::kDenied;
  result.decision.retry_at = query.now + std::max(query.bound.retry_after, Millis(1));
  return result;
}

void Decider::set_accuracy_of_log(const Tuple& tuple, const memory::Query& query,
                                  CellDecision& result) const {
  if (!memory::LogCell(tuple).is_undersized_for(query)) return;
  state_.counters->add(Stat::kNoMemory);
  result.approximate = true;
}

// Expired tuples may own the memory that is missing, and an embedding program need not sweep.
void Decider::sweep_some(WallTime now) const {
  constexpr size_t kSlotsAtATime = 64;
  state_.tuples->sweep(now, kSlotsAtATime);
}

std::optional<std::optional<CellDecision>> Decider::try_peek(const RequestContext& context) const {
  // An attempt fails only while another thread moves the tuple.
  constexpr int kMaxAttempts = 1000;
  memory::TupleStore& tuples = *state_.tuples;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const epoch::Guard guard;
    const Tuple tuple = tuples.table.find(context.key);
    if (!tuple) break;
    if (is_late(tuple, context.now.wall)) return std::nullopt;
    // The tuple was idle for too long or is of a future time, so it has no counts of this window.
    // Nor has the sketch, which counts no tuple of the table.
    if (context.cell_class() == CellClass::kWindow && !WindowCells(tuple).fits(context.query)) {
      return std::optional<CellDecision>{};
    }
    CellDecision result = decide_cells(tuple, context.query, Effect::kPeek);
    if (result.status == DecisionStatus::kDecided) {
      set_accuracy(tuple, context.query, result);
      return result;
    }
    memory::cpu_relax();
  }
  if (!tuples.sketch.holds(tuples.sketch_subject(context.key), context.query)) {
    return std::optional<CellDecision>{};
  }
  return decide_in_sketch(context, Effect::kPeek);
}

void Decider::enqueue_replay(const Tuple& tuple, Count limit, Algorithm algorithm) const {
  memory::record_ask(tuple.cold->meta, limit, algorithm);
  state_.region->pending_replay.push(tuple.index);
}

// Creates the tuple, or rebuilds it so that it can express the request. A tuple that the sketch
// counts is not created. A new tuple has the known counts of other regions before any thread finds
// it.
memory::CreateResult Decider::create_or_rebuild(const RequestContext& context,
                                                DecisionStatus status) const {
  memory::TupleStore& tuples = *state_.tuples;
  const auto in_sketch = [&] {
    return tuples.sketch.holds(tuples.sketch_subject(context.key), context.query);
  };
  memory::Table::CreateHooks hooks{.veto = in_sketch, .prepare = {}};
  const bool rebuilds = status == DecisionStatus::kRebuild;
  tuples.note_class(context.key);
  const regional::Conversion conversion = rebuilds ? regional::Conversion{} : taken_over(context);
  const bool has_remote = state_.global && context.cell_class() == CellClass::kWindow;
  const int64_t sequence =
      algorithms::position_of(context.query.now, context.query.duration).sequence;
  if (has_remote || conversion.exists()) {
    global::LedgerTotals totals;
    if (has_remote) totals = state_.global->totals(context.key, sequence);
    hooks.prepare = [&, totals](const Tuple& tuple) {
      regional::apply(conversion, tuple, context.query, tuples.scope);
      if (conversion.from != 0 && context.asks_origin) memory::mark_open(tuple);
      if (has_remote) merge_remote(context, totals, tuple);
    };
  }
  const memory::CreateResult created = rebuilds
                                           ? tuples.table.rebuild(context.key, context.query, hooks)
                                           : tuples.table.create(context.key, context.query, hooks);
  if (created == memory::CreateResult::kCreated && conversion.exists()) {
    note_taken_over(context, conversion);
  }
  if (created == memory::CreateResult::kCreated && rebuilds && tuples.has_origin()) {
    // The origin was to be told of the slot that the tuple had before.
    const epoch::Guard guard;
    const Tuple tuple = tuples.table.find(context.key);
    if (tuple && memory::has_unreported(tuple)) state_.region->mark_unreported(tuple);
  }
  if (created != memory::CreateResult::kCreated || !has_remote) return created;
  // Counts may have been imported meanwhile.
  const global::LedgerTotals totals = state_.global->totals(context.key, sequence);
  const epoch::Guard guard;
  if (const Tuple tuple = tuples.table.find(context.key)) {
    merge_remote(context, totals, tuple);
    state_.global->merge_stored(context.query.now, tuple, context.key);
    // A request that waited for long is decided in a past window; the evaluation merges the counts
    // of the present one.
    state_.publish_watch->push(tuple.index);
  }
  return created;
}

regional::Conversion Decider::taken_over(const RequestContext& context) const {
  if (state_.tuples->other_classes(context.key) == 0) return {};
  const epoch::Guard guard;
  return regional::conversion_to(*state_.tuples, *state_.region, context.key, context.query,
                                 context.now, regional::Purpose::kCreate);
}

// The tuple has been created.
void Decider::note_taken_over(const RequestContext& context,
                              const regional::Conversion& conversion) const {
  if (context.asks_origin) return;  // see Engine::ask()
  if (context.cell_class() != CellClass::kWindow) {
    return regional::end_conversion(*state_.tuples, context.key, conversion.from);
  }
  regional::tell_window(state_.tuples, *state_.region, context.key, context.query, conversion);
}

void Decider::merge_remote(const RequestContext& context, const global::LedgerTotals& totals,
                           const Tuple& tuple) {
  const int64_t sequence =
      algorithms::position_of(context.query.now, context.query.duration).sequence;
  // The tuple is new: no step has asked for it.
  global::merge_into(tuple, sequence - 1, totals.last, memory::kNoUncertainGrants);
  global::merge_into(tuple, sequence, totals.current, memory::kNoUncertainGrants);
}

}  // namespace weir::decide
