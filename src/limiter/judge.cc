#include "limiter/judge.h"

#include <algorithm>

#include "limiter/freshness.h"
#include "memory/backlog_cell.h"
#include "memory/log_cell.h"
#include "memory/ring_cell.h"
#include "memory/window_cells.h"

namespace weir::limiter {

using memory::CellClass;
using memory::CellDecision;
using memory::Effect;
using memory::Tuple;
using memory::WindowCells;

CellDecision Decider::decide(const Tuple& tuple, const memory::Query& query, Effect effect) {
  switch (tuple.slot->header.cell_class()) {
    [[likely]] case CellClass::kWindow : return WindowCells(tuple).decide(query, effect);
    case CellClass::kBacklog: return memory::BacklogCell(tuple).decide(query, effect);
    case CellClass::kRing: return memory::RingCell(tuple).decide(query, effect);
    case CellClass::kLog: break;
  }
  return memory::LogCell(tuple).decide(query, effect);
}

CellDecision Decider::decide_on_counts(const memory::Query& query,
                                       const algorithms::WindowCounts& counts) {
  const auto at = algorithms::position_of(query.now, query.duration);
  CellDecision step;
  step.sequence = at.sequence;
  step.decision = query.algorithm == Algorithm::kSlidingWindow
                      ? algorithms::decide_sliding(at, counts, query.ask)
                      : algorithms::decide_fixed(at, counts, query.ask);
  if (memory::class_of(query.algorithm) != CellClass::kWindow) step.decision.reset = query.now;
  return step;
}

Ruling Decider::rule_unknown(const RequestContext& context) const {
  const auto at = algorithms::position_of(context.query.now, context.query.duration);
  algorithms::WindowCounts region = context.received.value_or(algorithms::WindowCounts{});
  algorithms::WindowCounts abroad;
  if (store_->shares() && context.cell_class() == CellClass::kWindow) {
    const Abroad known = store_->remote.abroad(context.key, at.sequence);
    abroad = {.current = known.current.foreign, .previous = known.last.foreign};
    // Our own row is a lower bound of what our region has; the origin may have forgotten it.
    region = {.current = std::max(region.current, known.current.ours),
              .previous = std::max(region.previous, known.last.ours)};
  }
  const algorithms::WindowCounts counts{.current = region.current + abroad.current,
                                        .previous = region.previous + abroad.previous};
  Ruling ruling{.step = decide_on_counts(context.query, counts)};
  ruling.step.evidence.siblings = region.current;
  ruling.step.evidence.foreign = abroad.current;
  if (context.query.algorithm == Algorithm::kSlidingWindow) {
    ruling.step.evidence.previous = algorithms::carried_over(at, counts.previous);
  }
  return ruling;
}

bool Decider::is_late(const Tuple& tuple, WallTime asked) const {
  return memory::is_ahead_of(tuple, asked) && !memory::is_ahead_of(tuple, store_->clock.now().wall);
}

// Asks; where the case is late, again as of the present. Nothing: it was late every time.
template <typename Ask>
static auto ask_late_again(const RequestContext& context, const Clock& clock, const Ask& ask) {
  auto answer = ask(context);
  for (int turn = 0; !answer && turn < kLateTurns; ++turn) {
    RequestContext again = context;
    again.ask_at(clock.now());
    answer = ask(again);
  }
  return answer;
}

CellDecision Decider::refused_for_one_tick(const RequestContext& context) {
  CellDecision refusal = decide_on_counts(context.query, {});
  memory::deny_for_one_tick(context.query, refusal.decision);
  refusal.decision.remaining = 0;
  return refusal;
}

Ruling Decider::rule(const RequestContext& context) {
  if (context.query.ask.cost == 0) {
    if (const auto known = look(context)) return *known;
    return rule_unknown(context);
  }
  const auto ruling = ask_late_again(
      context, store_->clock, [this](const RequestContext& asked) { return try_rule(asked); });
  return ruling ? *ruling : Ruling{.step = refused_for_one_tick(context)};
}

std::optional<Ruling> Decider::look(const RequestContext& context) {
  const auto known = ask_late_again(
      context, store_->clock, [this](const RequestContext& asked) { return try_look(asked); });
  return known ? *known : Ruling{.step = refused_for_one_tick(context)};
}

std::optional<Ruling> Decider::try_rule(const RequestContext& context) {
  const memory::Query& query = context.query;
  Ruling ruling;
  const auto decided = with_tuple(context, [&](const Tuple& tuple) {
    CellDecision step = decide(tuple, query, Effect::kConsume);
    // Refused only because of a batch that may yet take its cost back? Batches are short:
    // look again a few times, then the refusal stands.
    constexpr int kTurns = 100;
    for (int turn = 0; turn < kTurns && step.status == memory::DecisionStatus::kDecided &&
                       step.decision.outcome == Outcome::kDenied &&
                       memory::tentative_amount(tuple.cold->tentative) != 0;
         ++turn) {
      memory::cpu_relax();
      step = decide(tuple, query, Effect::kConsume);
    }
    if (step.status != memory::DecisionStatus::kDecided) return step;
    if (step.decision.admitted()) {
      mark_charged(tuple, query, step);
    } else if (step.decision.outcome == Outcome::kDenied) {
      mark_denied(tuple, context.now.mono, query);
    }
    ruling = ruling_of(tuple, query, step);
    return step;
  });
  if (decided && decided->status == memory::DecisionStatus::kLate) return std::nullopt;
  if (decided) {
    ruling.step = *decided;
    return ruling;
  }
  if (in_sketch(context, [&] { ruling = rule_sketched(context, Effect::kConsume); })) {
    return ruling;
  }
  // Someone has just made it.
  return Ruling{.step = refused_for_one_tick(context)};
}

Ruling Decider::rule_sketched(const RequestContext& context, Effect effect) const {
  if (!store_->table.has_memory_for(context.key, context.query)) {
    store_->stats.add(Stat::kNoMemory);
  }
  return {.step = decide_sketched(context, effect), .sketched = true};
}

Ruling Decider::ruling_of(const Tuple& tuple, const memory::Query& query,
                          const CellDecision& step) const {
  Ruling ruling{.step = step};
  if (tuple.slot->header.cell_class() == CellClass::kLog &&
      memory::LogCell(tuple).is_undersized_for(query)) {
    store_->stats.add(Stat::kNoMemory);
    ruling.sketched = true;
  }
  return ruling;
}

// Expired tuples may own what is wanted, and a program that embeds the limiter need not sweep.
void Decider::reclaim(WallTime now) const {
  constexpr size_t kSlotsAtATime = 64;
  store_->sweep(now, kSlotsAtATime);
}

std::optional<std::optional<Ruling>> Decider::try_look(const RequestContext& context) const {
  // Turns fail only while someone moves the tuple, which is then created anew or not.
  constexpr int kTurns = 1000;
  for (int turn = 0; turn < kTurns; ++turn) {
    const epoch::Guard guard;
    const Tuple tuple = store_->table.find(context.key);
    if (!tuple) break;
    if (is_late(tuple, context.now.wall)) return std::nullopt;
    // Too long ago, or in a future that is no more: it knows nothing of this window. Nor does the
    // sketch, in which no tuple of the table is counted.
    if (context.cell_class() == CellClass::kWindow && !WindowCells(tuple).fits(context.query)) {
      return std::optional<Ruling>{};
    }
    const CellDecision step = decide(tuple, context.query, Effect::kPeek);
    if (step.status == memory::DecisionStatus::kDecided)
      return ruling_of(tuple, context.query, step);
    memory::cpu_relax();
  }
  if (!store_->sketch.holds(store_->sketched(context.key), context.query)) {
    return std::optional<Ruling>{};
  }
  return rule_sketched(context, Effect::kPeek);
}

void Decider::list_dirty(const Tuple& tuple, Count limit, Algorithm algorithm) const {
  memory::record_ask(tuple.cold->meta, limit, algorithm);
  store_->dirty.push(tuple.index);
}

void Decider::make_strict(const Tuple& tuple, MonoTime now, const memory::Query& query) const {
  memory::Word& until = WindowCells(tuple).strict_until();
  if (until.load(std::memory_order_relaxed) <= ticks(now)) store_->stats.add(Stat::kMadeStrict);
  memory::raise_number(until, ticks(now + query.duration));
  memory::record_ask(tuple.cold->meta, query.limit, query.algorithm);
}

// Makes a tuple, or a state of it that can express the request. What is counted in the sketch is
// not counted in the table as well, and what is known of other regions is known to the tuple before
// anyone is admitted on it.
memory::CreateResult Decider::make(const RequestContext& context,
                                   memory::DecisionStatus status) const {
  const auto sketched = [&] {
    return store_->sketch.holds(store_->sketched(context.key), context.query);
  };
  memory::Table::CreateHooks hooks{.veto = sketched, .prepare = {}};
  const bool shares = store_->shares() && context.cell_class() == CellClass::kWindow;
  const int64_t sequence =
      algorithms::position_of(context.query.now, context.query.duration).sequence;
  if (shares) {
    hooks.prepare = [&, known = store_->remote.abroad(context.key, sequence)](const Tuple& tuple) {
      introduce(context, known, tuple);
    };
  }
  const memory::CreateResult made = status == memory::DecisionStatus::kRebuild
                                        ? store_->table.rebuild(context.key, context.query, hooks)
                                        : store_->table.create(context.key, context.query, hooks);
  if (made != memory::CreateResult::kCreated || !shares) return made;
  // And what was heard meanwhile.
  const Abroad known = store_->remote.abroad(context.key, sequence);
  const epoch::Guard guard;
  if (const Tuple tuple = store_->table.find(context.key)) {
    introduce(context, known, tuple);
    // Whoever waited for long is decided in a window that is over; of the present one the tuple
    // learns when it is looked at.
    store_->looks.push(tuple.index);
  }
  return made;
}

// What other regions are known to have counted on a tuple before this process saw it; and our own
// region, before this process was there.
void Decider::introduce(const RequestContext& context, const Abroad& known,
                        const Tuple& tuple) const {
  const int64_t sequence =
      algorithms::position_of(context.query.now, context.query.duration).sequence;
  take_in(known.last, tuple, sequence - 1);
  take_in(known.current, tuple, sequence);
}

void Decider::look_after_denial(const Tuple& tuple, const memory::Query& query) const {
  const WindowCells cells(tuple);
  cells.mark_denied();
  if (query.limit < cells.watch().limit()) cells.watch_limit(query.limit);
  store_->looks.push(tuple.index);
}

}  // namespace weir::limiter
