#include "limiter/batch.h"

#include <algorithm>
#include <numeric>

#include "memory/backlog_cell.h"
#include "memory/log_cell.h"
#include "memory/ring_cell.h"
#include "memory/window_cells.h"

namespace weir::limiter {

using memory::CellClass;
using memory::CellDecision;
using memory::DecisionStatus;
using memory::Effect;
using memory::Query;
using memory::Tuple;

namespace {

bool refused(const CellDecision& step) {
  return !step.decision.admitted();
}

// A tuple whose state is several words is held, not charged tentatively; see hold.h.
template <typename Use>
auto with_held_cell(const Tuple& tuple, const Use& use) {
  return tuple.slot->header.cell_class() == CellClass::kRing ? use(memory::RingCell(tuple))
                                                             : use(memory::LogCell(tuple));
}

bool is_held_class(CellClass cell_class) {
  return cell_class == CellClass::kRing || cell_class == CellClass::kLog;
}

}  // namespace

BatchRuling Batch::run() {
  sort_into_groups();
  for (const Group& group : groups_) {
    if (charge(group)) continue;
    undo(0);
    if (late_) return {.late = true};
    report_refusal();
    return {.admitted = false, .items = std::move(rulings_)};
  }
  settle();
  return {.admitted = true, .items = std::move(rulings_)};
}

void Batch::sort_into_groups() {
  order_.resize(cases_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [this](size_t a, size_t b) { return cases_[a].key < cases_[b].key; });
  for (size_t i = 0; i < order_.size(); ++i) {
    if (i == 0 || !(cases_[order_[i]].key == cases_[order_[i - 1]].key)) {
      groups_.push_back({.begin = i, .end = i});
    }
    groups_.back().end = i + 1;
  }
}

// The query of the i-th case of a group with the costs of those before it added.
Query Batch::query_up_to(const Group& group, size_t i) const {
  Query query = cases_[order_[i]].query;
  for (size_t before = group.begin; before < i; ++before) {
    query.ask.cost += cases_[order_[before]].query.ask.cost;
  }
  return query;
}

bool Batch::charge(const Group& group) {
  const RequestContext& first = cases_[order_[group.begin]];
  if (query_up_to(group, group.end - 1).ask.cost == 0) return peek(group);
  bool decided = false;
  const auto step = decider_.with_tuple(first, [&](const Tuple& tuple) {
    CellDecision tried = is_held_class(first.cell_class()) ? charge_locked(tuple, group)
                                                           : charge_tentatively(tuple, group);
    decided = tried.status == DecisionStatus::kDecided;
    return tried;
  });
  late_ = step && step->status == DecisionStatus::kLate;
  if (late_) return false;
  if (step && !decided) {
    // It was to be made anew, and there was no room or no peace for that.
    refused_item_ = order_[group.begin];
    rulings_[refused_item_] = {.step = *step};
  }
  if (step) return !refused(*step);
  bool charged = false;
  if (decider_.in_sketch(first, [&] { charged = !refused(charge_sketched(group)); }))
    return charged;
  // Someone has just made it.
  refused_item_ = order_[group.begin];
  rulings_[refused_item_] = {.step = Decider::refused_for_one_tick(first)};
  return false;
}

// A group that asks for nothing: no tuple is created for it.
bool Batch::peek(const Group& group) {
  for (size_t i = group.begin; i < group.end; ++i) {
    rulings_[order_[i]] = decider_.rule(cases_[order_[i]]);
    refused_item_ = order_[i];
    if (refused(rulings_[order_[i]].step)) return false;
  }
  return true;
}

CellDecision Batch::charge_tentatively(const Tuple& tuple, const Group& group) {
  const size_t charges_before = charges_.size();
  CellDecision step;
  for (size_t i = group.begin; i < group.end; ++i) {
    const Query& query = cases_[order_[i]].query;
    // Another batch's cost may go again: look a few times before the refusal stands.
    constexpr int kTurns = 100;
    for (int turn = 0; turn < kTurns; ++turn, --turns_) {
      memory::add_tentative(tuple.cold->tentative, query.ask.cost);
      step = Decider::decide(tuple, query, Effect::kConsume);
      if (step.status == DecisionStatus::kDecided && !refused(step)) break;
      withdraw(tuple, query.ask.cost);
      const bool others_at_work =
          memory::tentative_amount(tuple.cold->tentative) != 0 && charges_.size() == charges_before;
      if (step.status != DecisionStatus::kDecided || step.decision.outcome == Outcome::kNever ||
          !others_at_work || turns_ <= 0) {
        break;
      }
      memory::cpu_relax();
    }
    rulings_[order_[i]] = {.step = step};
    if (step.status != DecisionStatus::kDecided) {
      undo(charges_before);
      return step;
    }
    if (refused(step)) {
      refused_item_ = order_[i];
      decider_.mark_denied(tuple, cases_[order_[i]].now.mono, query);
      return step;
    }
    charges_.push_back({.kind = Charge::Kind::kTentative,
                        .tuple = tuple,
                        .item = order_[i],
                        .sequence = step.sequence,
                        .cost = query.ask.cost});
  }
  return step;
}

CellDecision Batch::charge_locked(const Tuple& tuple, const Group& group) {
  memory::Word& head = tuple.slot->hot[1];
  switch (memory::try_lock_head(head, turns_)) {
    case memory::HeadLock::kLocked: break;
    case memory::HeadLock::kMoved: return {.status = DecisionStatus::kRetry};
    case memory::HeadLock::kTimeout: return refuse_held(tuple, group);
  }
  CellDecision step;
  for (size_t i = group.begin; i < group.end; ++i) {
    const Query query = query_up_to(group, i);
    step = with_held_cell(tuple, [&](const auto& cell) { return cell.peek_locked(query); });
    rulings_[order_[i]] = decider_.ruling_of(tuple, query, step);
    if (step.status != DecisionStatus::kDecided || refused(step)) {
      refused_item_ = order_[i];
      memory::unlock_head(head);
      return step;
    }
  }
  charges_.push_back({.kind = Charge::Kind::kHeld,
                      .tuple = tuple,
                      .item = order_[group.end - 1],
                      .cost = query_up_to(group, group.end - 1).ask.cost});
  return step;
}

// Another batch holds the tuple for longer than a request may wait.
CellDecision Batch::refuse_held(const Tuple& tuple, const Group& group) {
  refused_item_ = order_[group.begin];
  const RequestContext& first = cases_[refused_item_];
  CellDecision step = Decider::decide(tuple, first.query, Effect::kPeek);
  if (step.status != DecisionStatus::kDecided) return step;
  if (!refused(step)) memory::deny_for_one_tick(first.query, step.decision);
  rulings_[refused_item_] = {.step = step};
  return step;
}

CellDecision Batch::charge_sketched(const Group& group) {
  CellDecision step;
  for (size_t i = group.begin; i < group.end; ++i) {
    const RequestContext& context = cases_[order_[i]];
    rulings_[order_[i]] = decider_.rule_sketched(context, Effect::kConsume);
    step = rulings_[order_[i]].step;
    if (refused(step)) {
      refused_item_ = order_[i];
      return step;
    }
    charges_.push_back({.kind = Charge::Kind::kSketched,
                        .item = order_[i],
                        .sequence = step.sequence,
                        .cost = context.query.ask.cost});
  }
  return step;
}

void Batch::settle() {
  const epoch::Guard guard;
  for (const Charge& charge : charges_) {
    switch (charge.kind) {
      case Charge::Kind::kTentative:
        memory::remove_tentative(charge.tuple.cold->tentative, charge.cost);
        if (charge.cost > 0) {
          decider_.mark_charged(charge.tuple, cases_[charge.item].query,
                                rulings_[charge.item].step);
        }
        break;
      case Charge::Kind::kHeld: {
        Query query = cases_[charge.item].query;
        query.ask.cost = charge.cost;
        if (charge.cost > 0) {
          with_held_cell(charge.tuple, [&](const auto& cell) { cell.charge_locked(query); });
        }
        memory::unlock_head(charge.tuple.slot->hot[1]);
        break;
      }
      case Charge::Kind::kSketched: break;
    }
  }
}

void Batch::undo(size_t down_to) {
  const epoch::Guard guard;
  while (charges_.size() > down_to) {
    undo_one(charges_.back());
    charges_.pop_back();
  }
}

void Batch::undo_one(const Charge& charge) {
  switch (charge.kind) {
    case Charge::Kind::kTentative:
      if (charge.cost > 0 && !memory::mutated(memory::Mutation::kFailedBatchConsumes)) {
        if (charge.tuple.slot->header.cell_class() == CellClass::kWindow) {
          memory::WindowCells(charge.tuple).refund(charge.sequence, charge.cost);
        } else {
          memory::BacklogCell(charge.tuple).refund(charge.cost);
        }
      }
      withdraw(charge.tuple, charge.cost);
      break;
    case Charge::Kind::kHeld: memory::unlock_head(charge.tuple.slot->hot[1]); break;
    case Charge::Kind::kSketched:
      store_.sketch.refund(store_.sketched(cases_[charge.item].key), cases_[charge.item].query,
                           charge.sequence);
      break;
  }
}

// A cost that is not in the count, or no longer. While it was in doubt it may have hidden as much
// of what others had accepted in either window from a replay and from the publish rule: they look
// again.
void Batch::withdraw(const Tuple& tuple, Count cost) const {
  memory::remove_tentative(tuple.cold->tentative, cost);
  if (!store_.shared() || tuple.slot->header.cell_class() != CellClass::kWindow) return;
  const memory::WindowCells cells(tuple);
  if (store_.asks() &&
      (cells.has_unacked(cells.newest()) || cells.has_unacked(cells.newest() - 1))) {
    store_.make_dirty(tuple);
  }
  if (store_.shares()) store_.looks.push(tuple.index);
}

// Everything has been taken back: each item is looked at as it would stand now, alone but for those
// before it on the same tuple. One that was refused stays so.
void Batch::report_refusal() {
  const Ruling refusal = rulings_[refused_item_];
  for (const Group& group : groups_) {
    for (size_t i = group.begin; i < group.end; ++i) {
      RequestContext as_asked = cases_[order_[i]];
      as_asked.query = query_up_to(group, i);
      const auto known = decider_.look(as_asked);
      Ruling& ruling = rulings_[order_[i]];
      ruling = known ? *known : decider_.rule_unknown(as_asked);
      // Nothing was consumed: what would have passed still has all of it.
      if (!refused(ruling.step)) ruling.step.decision.remaining += as_asked.query.ask.cost;
    }
  }
  Ruling& now = rulings_[refused_item_];
  if (now.step.decision.outcome == refusal.step.decision.outcome) return;
  // What was in its way has gone since. When to try again was said on what was known then.
  const Count remaining = now.step.decision.remaining;
  const Evidence evidence = now.step.evidence;
  now = refusal;
  now.step.decision.remaining = remaining;
  now.step.evidence = evidence;
}

}  // namespace weir::limiter
