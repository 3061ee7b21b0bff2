#include "decide/batch.h"

#include <algorithm>
#include <numeric>

#include "memory/backlog_cell.h"
#include "memory/log_cell.h"
#include "memory/ring_cell.h"
#include "memory/window_cells.h"

namespace weir::decide {

using memory::CellClass;
using memory::CellDecision;
using memory::DecisionStatus;
using memory::Effect;
using memory::Query;
using memory::Tuple;

namespace {

bool is_denied(const CellDecision& result) {
  return !result.decision.admitted();
}

// A tuple whose state is several words is held, not charged tentatively; see memory/head_lock.h.
template <typename Use>
auto with_held_cell(const Tuple& tuple, const Use& use) {
  return tuple.slot->header.cell_class() == CellClass::kRing ? use(memory::RingCell(tuple))
                                                             : use(memory::LogCell(tuple));
}

bool is_held_class(CellClass cell_class) {
  return cell_class == CellClass::kRing || cell_class == CellClass::kLog;
}

}  // namespace

BatchDecision Batch::run() {
  if (!charge_all()) {
    undo(0);
    if (late_) return {.late = true};
    report_denial();
    return {.admitted = false, .items = std::move(results_)};
  }
  settle();
  return {.admitted = true, .items = std::move(results_)};
}

std::optional<Batch::Denial> Batch::trial() {
  const bool admitted = charge_all();
  undo(0);
  if (admitted || late_) return std::nullopt;
  return Denial{.item = denied_item_, .result = results_[denied_item_]};
}

bool Batch::charge_all() {
  sort_into_groups();
  return take_answers() && std::all_of(groups_.begin(), groups_.end(),
                                       [this](const Group& group) { return charge(group); });
}

void Batch::sort_into_groups() {
  order_.resize(contexts_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [this](size_t a, size_t b) { return contexts_[a].key < contexts_[b].key; });
  for (size_t i = 0; i < order_.size(); ++i) {
    if (i == 0 || !(contexts_[order_[i]].key == contexts_[order_[i - 1]].key)) {
      groups_.push_back({.begin = i, .end = i});
    }
    groups_.back().end = i + 1;
  }
}

// Takes over what the origin has decided. False: it refused an item.
bool Batch::take_answers() {
  bool admitted = true;
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (!is_answered(i)) continue;
    results_[i] = *answers_[i];
    if (is_denied(results_[i])) {
      denied_item_ = i;
      admitted = false;
      continue;
    }
    charges_.push_back({.kind = Charge::Kind::kGranted,
                        .item = i,
                        .sequence = results_[i].sequence,
                        .cost = contexts_[i].query.ask.cost});
  }
  return admitted;
}

// The query of the i-th request of a group, plus the costs of those before it.
Query Batch::query_up_to(const Group& group, size_t i) const {
  Query query = contexts_[order_[i]].query;
  for (size_t before = group.begin; before < i; ++before) {
    query.ask.cost += contexts_[order_[before]].query.ask.cost;
  }
  return query;
}

bool Batch::charge(const Group& group) {
  const RequestContext& first = contexts_[order_[group.begin]];
  const bool has_cells = first.cell_class() == CellClass::kWindow && !first.is_apart;
  if (!has_cells && is_answered(group)) return true;
  if (query_up_to(group, group.end - 1).ask.cost == 0) return peek(group);
  bool decided = false;
  const auto result = decider_.with_tuple(first, [&](const Tuple& tuple) {
    CellDecision attempt = is_held_class(first.cell_class()) ? charge_locked(tuple, group)
                                                             : charge_tentatively(tuple, group);
    decided = attempt.status == DecisionStatus::kDecided;
    return attempt;
  });
  late_ = result && result->status == DecisionStatus::kLate;
  if (late_) return false;
  if (result && !decided) {
    // The tuple could not be rebuilt: no space, or too many attempts.
    denied_item_ = order_[group.begin];
    results_[denied_item_] = *result;
  }
  if (result) return !is_denied(*result);
  bool charged = false;
  if (decider_.while_absent(first, [&] { charged = !is_denied(charge_in_sketch(group)); })) {
    return charged;
  }
  // Another thread has just created the tuple.
  denied_item_ = order_[group.begin];
  results_[denied_item_] = Decider::deny_for_one_tick(first);
  return false;
}

// A group without a cost creates no tuple.
bool Batch::peek(const Group& group) {
  for (size_t i = group.begin; i < group.end; ++i) {
    results_[order_[i]] = decider_.decide(contexts_[order_[i]]);
    denied_item_ = order_[i];
    if (is_denied(results_[order_[i]])) return false;
  }
  return true;
}

CellDecision Batch::charge_tentatively(const Tuple& tuple, const Group& group) {
  const size_t charges_before = charges_.size();
  CellDecision result;
  for (size_t i = group.begin; i < group.end; ++i) {
    if (is_answered(order_[i])) {
      result = results_[order_[i]];
      continue;
    }
    const Query& query = contexts_[order_[i]].query;
    // Another batch may take its cost back: retry a few times before the denial stands.
    constexpr int kMaxRetries = 100;
    for (int retry = 0; retry < kMaxRetries; ++retry, --spins_) {
      memory::add_tentative(tuple.cold->tentative, query.ask.cost);
      result = Decider::decide_cells(tuple, query, Effect::kConsume);
      if (result.status == DecisionStatus::kDecided && !is_denied(result)) break;
      withdraw(tuple, query.ask.cost);
      const bool other_batches =
          memory::tentative_amount(tuple.cold->tentative) != 0 && charges_.size() == charges_before;
      if (result.status != DecisionStatus::kDecided || result.decision.outcome == Outcome::kNever ||
          !other_batches || spins_ <= 0) {
        break;
      }
      memory::cpu_relax();
    }
    results_[order_[i]] = result;
    if (result.status != DecisionStatus::kDecided) {
      undo(charges_before);
      return result;
    }
    if (is_denied(result)) {
      denied_item_ = order_[i];
      decider_.mark_denied(tuple, query);
      return result;
    }
    charges_.push_back({.kind = Charge::Kind::kTentative,
                        .tuple = tuple,
                        .item = order_[i],
                        .sequence = result.sequence,
                        .cost = query.ask.cost});
  }
  return result;
}

CellDecision Batch::charge_locked(const Tuple& tuple, const Group& group) {
  memory::Word& head = tuple.slot->hot[1];
  switch (memory::try_lock_head(head, spins_)) {
    case memory::HeadLock::kLocked: break;
    case memory::HeadLock::kMoved: return {.status = DecisionStatus::kRetry};
    case memory::HeadLock::kTimeout: return deny_held(tuple, group);
  }
  CellDecision result;
  Count cost = 0;  // the caller charges the items that the origin has decided
  for (size_t i = group.begin; i < group.end; ++i) {
    if (is_answered(order_[i])) continue;
    cost += contexts_[order_[i]].query.ask.cost;
    const Query query = query_up_to(group, i);
    result = with_held_cell(tuple, [&](const auto& cell) { return cell.peek_locked(query); });
    CellDecision& kept = results_[order_[i]] = result;
    decider_.set_accuracy(tuple, query, kept);
    if (result.status != DecisionStatus::kDecided || is_denied(result)) {
      denied_item_ = order_[i];
      memory::unlock_head(head);
      return result;
    }
  }
  charges_.push_back(
      {.kind = Charge::Kind::kHeld, .tuple = tuple, .item = order_[group.end - 1], .cost = cost});
  return result;
}

// Another batch holds the tuple for longer than a request may wait.
CellDecision Batch::deny_held(const Tuple& tuple, const Group& group) {
  denied_item_ = order_[group.begin];
  const RequestContext& first = contexts_[denied_item_];
  CellDecision result = Decider::decide_cells(tuple, first.query, Effect::kPeek);
  if (result.status != DecisionStatus::kDecided) return result;
  if (!is_denied(result)) memory::deny_for_one_tick(first.query, result.decision);
  results_[denied_item_] = result;
  return result;
}

CellDecision Batch::charge_in_sketch(const Group& group) {
  CellDecision result;
  for (size_t i = group.begin; i < group.end; ++i) {
    const RequestContext& context = contexts_[order_[i]];
    if (is_answered(order_[i])) {
      result = results_[order_[i]];
      continue;
    }
    result = decider_.decide_in_sketch(context, Effect::kConsume);
    results_[order_[i]] = result;
    if (is_denied(result)) {
      denied_item_ = order_[i];
      return result;
    }
    charges_.push_back({.kind = Charge::Kind::kSketched,
                        .item = order_[i],
                        .sequence = result.sequence,
                        .cost = context.query.ask.cost});
  }
  return result;
}

void Batch::settle() {
  const epoch::Guard guard;
  for (const Charge& charge : charges_) {
    switch (charge.kind) {
      case Charge::Kind::kTentative:
        memory::remove_tentative(charge.tuple.cold->tentative, charge.cost);
        if (charge.cost > 0) {
          decider_.mark_charged(charge.tuple, contexts_[charge.item].query, results_[charge.item]);
        }
        break;
      case Charge::Kind::kHeld: {
        Query query = contexts_[charge.item].query;
        query.ask.cost = charge.cost;
        if (charge.cost > 0) {
          with_held_cell(charge.tuple, [&](const auto& cell) { cell.charge_locked(query); });
        }
        memory::unlock_head(charge.tuple.slot->hot[1]);
        break;
      }
      case Charge::Kind::kSketched:
      case Charge::Kind::kGranted: break;
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
    case Charge::Kind::kGranted: {
      // The origin keeps the grant for the next request. A tuple that was removed since has another
      // component there.
      const RequestContext& context = contexts_[charge.item];
      if (context.cell_class() != CellClass::kWindow) break;
      const Tuple tuple = state_.tuples->table.find(context.key);
      if (tuple && memory::WindowCells(tuple).generation() == results_[charge.item].generation) {
        memory::WindowCells(tuple).refund(charge.sequence, charge.cost);
        if (state_.publish_watch) state_.publish_watch->push(tuple.index);
      }
      break;
    }
    case Charge::Kind::kSketched: {
      memory::TupleStore& tuples = *state_.tuples;
      const RequestContext& context = contexts_[charge.item];
      tuples.sketch.refund(tuples.sketch_subject(context.key), context.query, charge.sequence);
      break;
    }
  }
}

// Removes a tentative cost that the count does not include (any more). While it was tentative, a
// replay or the publish rule may have missed as much of other requests' counts, in either window:
// so both run again.
void Batch::withdraw(const Tuple& tuple, Count cost) const {
  memory::remove_tentative(tuple.cold->tentative, cost);
  if (!state_.tuples->is_shared()) return;
  if (tuple.slot->header.cell_class() != CellClass::kWindow) return;
  const memory::WindowCells cells(tuple);
  if (state_.tuples->has_origin() &&
      (cells.has_unacked(cells.newest()) || cells.has_unacked(cells.newest() - 1))) {
    state_.region->mark_dirty(tuple);
  }
  if (state_.publish_watch) state_.publish_watch->push(tuple.index);
}

// All costs were taken back: each item reports how it would be decided now, alone but for those
// before it on the same tuple. The item that was denied stays denied.
void Batch::report_denial() {
  const CellDecision denial = results_[denied_item_];
  for (const Group& group : groups_) {
    for (size_t i = group.begin; i < group.end; ++i) {
      RequestContext context = contexts_[order_[i]];
      // Only the origin knows.
      const bool has_cells = context.cell_class() == CellClass::kWindow && !context.is_apart;
      if (!has_cells && is_answered(order_[i])) continue;
      context.query = query_up_to(group, i);
      const auto known = decider_.peek(context);
      CellDecision& result = results_[order_[i]];
      result = known ? *known : decider_.decide_without_tuple(context);
      // Nothing was consumed: an item that would pass still has its cost left.
      if (!is_denied(result)) result.decision.remaining += context.query.ask.cost;
    }
  }
  CellDecision& present = results_[denied_item_];
  if (present.decision.outcome == denial.decision.outcome) return;
  // The item would pass by now. Its retry time is that of the denial.
  const Count remaining = present.decision.remaining;
  const Evidence evidence = present.evidence;
  present = denial;
  present.decision.remaining = remaining;
  present.evidence = evidence;
}

}  // namespace weir::decide
