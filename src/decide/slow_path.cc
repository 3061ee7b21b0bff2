// The slow path of one request: validate, read the origin if needed, decide in the table or the
// sketch.

#include <optional>
#include <utility>

#include "decide/engine.h"
#include "decide/validate.h"
#include "memory/exact_use.h"
#include "memory/head_lock.h"
#include "memory/lifecycle.h"
#include "memory/window_cells.h"
#include "regional/exact_share.h"
#include "regional/freshness.h"
#include "regional/loss_bound.h"
#include "regional/query_share.h"

namespace weir::decide {

using memory::CellClass;
using memory::CellDecision;
using memory::DecisionStatus;
using memory::WindowCells;
using regional::Freshness;
using regional::ReadRequirement;
using telemetry::Stat;

[[gnu::noinline, gnu::cold]] void Engine::check_slow(Instant now, const Request& request,
                                                     Result<Verdict>& result) {
  if (request.past != nullptr) {
    result = check_after_change(now, request);
    return;
  }
  const bool shares = shares_as_region(request.algorithm, request.consistency);
  if (!shares && check_known(now, request, result.value())) return;
  if (auto error = validate(request)) {
    result = std::move(*error);
    return;
  }
  RequestContext context(now, request, state_.tuples->hash);
  decide_unread(context, read_requirement(context, Waiting::kImpossible), result.value());
}

bool Engine::check_async(Instant now, const Request& request, const regional::Caller& caller,
                         VerdictHandler done) {
  if (request.past != nullptr) [[unlikely]]
    return check_async_after_change(now, request, caller, std::move(done));
  if (auto error = validate(request)) {
    done(std::move(*error));
    return true;
  }
  auto context = std::make_shared<RequestContext>(now, request, state_.tuples->hash);
  const ReadRequirement requirement = read_requirement(*context, Waiting::kPossible);
  Verdict verdict;
  if (decide_known(*context, requirement, verdict)) {
    done(verdict);
    return true;
  }
  if (regional::is_read(requirement)) {
    refresh_->read(
        now,
        {{.key = &context->key, .duration = context->query.duration, .requirement = requirement}},
        caller,
        [self = shared_from_this(), context,
         done = std::move(done)](const std::vector<regional::ReadResult>& results) {
          Verdict read_verdict;
          const Basis basis = self->basis_after_read(results[0], *context);
          self->decide_and_recheck(*context, basis, read_verdict);
          done(read_verdict);
        });
    return false;
  }
  ask(now, {{.key = &context->key, .query = &context->query}}, context, caller,
      [self = shared_from_this(), context,
       done = std::move(done)](const std::vector<regional::StepResult>& results) {
        Verdict step_verdict;
        self->finish_step(results[0], *context, step_verdict);
        done(step_verdict);
      });
  return false;
}

// Writes the verdict of a request that asked the origin.
void Engine::finish_step(const regional::StepResult& result, RequestContext& context,
                         Verdict& verdict) {
  using Status = regional::StepResult::Status;
  switch (result.status) {
    case Status::kDecided:
      fill(context.query, result.decision, Basis::kRefreshed, verdict);
      count(verdict);
      if (verdict.admitted()) charge_after_answer(context);
      return;
    case Status::kLate:
      degrade(context, missing_now(context));
      return decide_and_recheck(context, Basis::kDegraded, verdict);
    case Status::kEvicted:
      fill(context.query, deny_evicted(context), Basis::kDegraded, verdict);
      count(verdict);
      return;
  }
}

void Engine::undo_division(const RequestContext& context, Verdict& verdict) {
  verdict.limit = *context.undivided_capacity;
  if (verdict.outcome != Outcome::kNever || context.query.ask.cost > verdict.limit) return;
  // More than the share of this process, but not more than the limit.
  verdict.outcome = Outcome::kDenied;
  verdict.retry_after = regional::kReadPause;
}

// The origin has admitted the request. This process counts it, too, so that it does not start from
// nothing when the origin is lost.
void Engine::charge_after_answer(const RequestContext& context) {
  if (context.cell_class() == CellClass::kWindow || context.query.ask.cost == 0) return;
  (void)decider_.decide(context);
  count_for_regions(state_.tuples->clock.now(), context.key, context.query);
}

// A denial for one tick: the counts of the tuple are at the origin, and not in memory.
CellDecision Engine::deny_evicted(const RequestContext& context) {
  if (context.standing_denial) return *context.standing_denial;
  const auto known = decider_.peek(context);
  CellDecision denial = known ? *known : decider_.decide_without_tuple(context);
  if (denial.decision.admitted()) memory::deny_for_one_tick(context.query, denial.decision);
  return denial;
}

bool Engine::decide_known(RequestContext& context, ReadRequirement requirement, Verdict& verdict) {
  if (regional::is_read(requirement) || requirement == ReadRequirement::kAsk) return false;
  const bool by_allowance =
      requirement == ReadRequirement::kNothing && context.query.bound.is_set();
  const bool exact = context.cell_class() != CellClass::kWindow;
  if (exact && requirement == ReadRequirement::kRefused) {
    fill(context.query, *context.refusal, Basis::kLocal, verdict);
    count(verdict);
    return true;
  }
  if (!by_allowance) {
    decide_unread(context, requirement, verdict);
    return true;
  }
  if (exact) {
    const Count most = std::exchange(context.query.bound, {}).most;
    {
      const epoch::Guard guard;
      const memory::Tuple tuple = state_.tuples->table.find(context.key);
      const bool admitted = tuple && memory::fits(tuple, context.query) &&
                            admit_locally(tuple, context.query, most, verdict);
      if (!admitted) return false;
    }
    if (!memory::mutated(memory::Mutation::kUsageOfStepsOnly)) {
      count_for_regions(context.now, context.key, context.query);
    }
    return true;
  }
  CellDecision result;
  if (!decider_.decide_in_table(context, result) || !result.decision.admitted()) {
    context.query.bound = {};
    return false;
  }
  fill(context.query, result, Basis::kLocal, verdict);
  count(verdict);
  return true;
}

WEIR_HOT_INLINE void Engine::decide(const RequestContext& context, Basis basis, Verdict& verdict) {
  CellDecision result;  // never leaves the registers
  if (!decider_.decide_in_table(context, result)) [[unlikely]] {
    decide_uncommon(context, basis, verdict);
    return;
  }
  fill(context.query, result, basis, verdict);
  count(verdict);
}

void Engine::decide_uncommon(const RequestContext& context, Basis basis, Verdict& verdict) {
  fill(context.query, decider_.decide(context), basis, verdict);
  count(verdict);
}

// Decides without a read, whether or not one is required.
void Engine::decide_unread(RequestContext& context, ReadRequirement requirement, Verdict& verdict) {
  const bool shares = shares_as_region(context.query.algorithm, context.consistency);
  if (shares) charge_foreign(context);
  if (context.consistency == Consistency::kRelaxed && state_.region->origin &&
      memory::mutated(memory::Mutation::kRelaxedTold)) {
    context.unknown_to_origin = true;
  }
  if (requirement == ReadRequirement::kDegrade) degrade(context, missing_now(context));
  decide_and_recheck(context, regional::basis_without_reading(requirement), verdict);
  if (shares && verdict.admitted()) count_for_regions(context.now, context.key, context.query);
}

// The tuple may have been evicted since its read was checked.
void Engine::decide_and_recheck(const RequestContext& context, Basis basis, Verdict& verdict) {
  if (context.denied_by_loss) {
    fill(context.query, deny_evicted(context), basis, verdict);
    return count(verdict);
  }
  decide(context, basis, verdict);
  if (context.unknown_to_origin && verdict.admitted()) note_own(context);
  if (context.undivided_capacity) undo_division(context, verdict);
  if (verdict.basis == Basis::kDegraded || !verdict.admitted()) return;
  if (!is_unread(context)) return;
  verdict.basis = Basis::kDegraded;
  state_.counters->add(Stat::kDegraded);
}

Consistency Engine::consistency_of(std::optional<Consistency> requested, Waiting waiting) const {
  if (steps_ == nullptr || waiting == Waiting::kImpossible) return Consistency::kRelaxed;
  return requested.value_or(state_.region->consistency.load(std::memory_order_relaxed));
}

// What the request requires of the origin before its decision. Creates a tuple that will be
// charged, so that the counts read have a place.
ReadRequirement Engine::read_requirement(RequestContext& context, Waiting waiting) {
  const regional::RegionState& region = *state_.region;
  if (!region.origin) return ReadRequirement::kNothing;
  if (context.cell_class() != CellClass::kWindow) return exact_requirement(context, waiting);
  const Millis longest =
      regional::longest_while_failing(region.replay_failing_since(), context.now.mono,
                                      context.query.duration, region.max_freshness);
  const regional::ReadRules rules{
      .longest = region.max_freshness,
      .available = region.origin->reach() == Reach::kPrompt && longest > Millis(0),
      .regions = region.reads_regions};
  ReadRequirement requirement =
      rules.available ? ReadRequirement::kCold : ReadRequirement::kDegrade;
  const Consistency consistency = consistency_of(context.consistency, waiting);
  // A peek decides on what it knows.
  const bool asks = consistency != Consistency::kRelaxed && context.query.ask.cost > 0;
  context.asks_origin = asks && rules.available;
  const auto allowance =
      consistency == Consistency::kConverge ? region.allowance.at(context.now.mono) : std::nullopt;
  const auto evaluate = [&](const memory::Tuple& tuple) {
    const WindowCells cells(tuple);
    // The tuple could not store the counts read, and would still be called fresh.
    if (!cells.fits(context.query)) return CellDecision{.status = DecisionStatus::kRebuild};
    const CellDecision result = cells.decide(context.query, memory::Effect::kPeek);
    const bool refused = result.status == DecisionStatus::kDecided && !result.decision.admitted();
    if (refused) replay_refused(tuple, context.now.mono);
    requirement = regional::read_requirement(cells, context.query, context.now.mono, rules);
    const bool relaxed = consistency == Consistency::kRelaxed && waiting == Waiting::kPossible;
    if (relaxed && regional::is_read(requirement) &&
        memory::mutated(memory::Mutation::kRelaxedUnread)) {
      requirement = ReadRequirement::kNothing;
    }
    if (asks && result.status == DecisionStatus::kDecided &&
        result.decision.outcome != Outcome::kNever) {
      requirement = regional::ask_requirement(cells, context.query, result, allowance, requirement,
                                              rules.available);
    } else if (refused) {
      requirement = ReadRequirement::kRefused;
    }
    if (requirement == ReadRequirement::kRefused) context.refusal = result;
    // The window must still be the newest when the reply arrives.
    if (context.query.ask.cost > 0 && result.status == DecisionStatus::kDecided) {
      cells.extend_to(result.sequence);
    }
    return result;
  };
  if (context.query.ask.cost > 0) {
    if (!decider_.with_tuple(context, evaluate)) {
      // The table is full. The counts of a read would have no place, so the sketch decides; but the
      // origin can decide by its own counts.
      if (!asks) return ReadRequirement::kNothing;
      context.is_apart = true;
    }
  } else {
    const epoch::Guard guard;
    if (const memory::Tuple tuple = state_.tuples->table.find(context.key)) evaluate(tuple);
  }
  // A request that came late could not be evaluated.
  return asks && regional::is_read(requirement) ? ReadRequirement::kAsk : requirement;
}

ReadRequirement Engine::exact_requirement(RequestContext& context, Waiting waiting) {
  const regional::RegionState& region = *state_.region;
  const memory::Query& query = context.query;
  const bool asks =
      is_decided_exactly(query.algorithm, context.consistency, waiting) &&
      regional::drains_in_time(query.algorithm, query.limit, query.duration, query.ask.capacity);
  if (!asks) return ReadRequirement::kNothing;
  context.asks_origin = true;
  const bool available = region.origin->reach() == Reach::kPrompt;
  ReadRequirement requirement = available ? ReadRequirement::kAsk : ReadRequirement::kDegrade;
  if (query.ask.cost == 0 || query.ask.cost > query.ask.capacity) return requirement;
  const bool converges =
      consistency_of(context.consistency, waiting) == Consistency::kConverge && available;
  const auto evaluate = [&](const memory::Tuple& tuple) {
    if (!memory::fits(tuple, query)) return CellDecision{.status = DecisionStatus::kRebuild};
    if (!converges) return CellDecision{};
    const memory::ExactUse use(tuple);
    if (auto denial = regional::known_denial(use, query, context.now.mono)) {
      context.refusal = denial;
      requirement = ReadRequirement::kRefused;
    } else if (const auto most = regional::allowance_limit(use, query, context.now.mono,
                                                           region.allowance.at(context.now.mono))) {
      context.query.bound = {.most = *most, .reported = false};
      requirement = ReadRequirement::kNothing;
    }
    return CellDecision{};
  };
  // Without a tuple the origin decides, and nothing is kept of its answer.
  (void)decider_.with_tuple(context, evaluate);
  return requirement;
}

[[gnu::noinline]] bool Engine::decide_locally(memory::Slot& slot, Instant now,
                                              const Request& request, Verdict& verdict) {
  const memory::Query query = memory::query_of(now.wall, request);
  const memory::Tuple tuple = state_.tuples->table.tuple_of(slot);
  if (query.ask.cost > query.ask.capacity || !memory::fits(tuple, query)) return false;
  const regional::RegionState& region = *state_.region;
  const memory::ExactUse use(tuple);
  // Before anything that it said: the origin answers.
  if (region.origin->reach() != Reach::kPrompt) return false;
  if (const auto denial = regional::known_denial(use, query, now.mono)) {
    fill(query, *denial, Basis::kLocal, verdict);
    count(verdict);
    return true;
  }
  const auto most = regional::allowance_limit(use, query, now.mono, region.allowance.at(now.mono));
  return most && admit_locally(tuple, query, *most, verdict);
}

// False: the origin must decide. Another thread may have used the allowance. If it has used the
// state in memory, the cost stays counted as if it were admitted, until the origin is told.
bool Engine::admit_locally(const memory::Tuple& tuple, const memory::Query& query, Count most,
                           Verdict& verdict) {
  const memory::ExactUse use(tuple);
  const CellDecision known_here = Decider::decide_cells(tuple, query, memory::Effect::kPeek);
  if (!known_here.decision.admitted() || !use.take(query.ask.cost, most)) return false;
  state_.region->mark_unreported(tuple);
  CellDecision result = Decider::decide_cells(tuple, query, memory::Effect::kConsume);
  decider_.set_accuracy(tuple, query, result);
  if (result.status != DecisionStatus::kDecided || !result.decision.admitted()) return false;
  const memory::ExactUse::Known known = use.known();
  const Count used = base::saturating_add(known.used, use.unreported());
  result.decision.remaining =
      std::min(result.decision.remaining, base::saturating_sub(query.ask.capacity, used));
  result.evidence.siblings = known.used;
  fill(query, result, Basis::kLocal, verdict);
  count(verdict);
  return true;
}

void Engine::note_own(const RequestContext& context) {
  if (context.cell_class() == CellClass::kWindow || context.query.ask.cost == 0) return;
  const epoch::Guard guard;
  const memory::Tuple tuple = state_.tuples->table.find(context.key);
  if (!tuple) return;
  const memory::ExactUse use(tuple);
  use.note_capacity(context.undivided_capacity.value_or(context.query.ask.capacity));
  use.add(context.query.ask.cost);
  state_.region->mark_unreported(tuple);
  count_for_regions(context.now, context.key, context.query);
}

// A refused tuple is not read, and so would not notice that the origin lost its counts. It is
// replayed now and then instead, which reads it back.
void Engine::replay_refused(const memory::Tuple& tuple, MonoTime now) {
  const Freshness freshness = regional::freshness_of(WindowCells(tuple));
  const Nanos fresh =
      regional::fresh_for(tuple.slot->header.duration(), state_.region->max_freshness);
  // After a failed read, too, once the pause has ended: no request will read the tuple.
  const bool rests =
      freshness.has_failed() ? freshness.lasts(now) : now - freshness.began() < fresh;
  if (!rests) state_.region->mark_dirty(tuple);
}

// Whether the origin is lost, or only this answer is late.
Engine::Missing Engine::missing_now(const RequestContext& context) const {
  if (consistency_of(context.consistency, Waiting::kPossible) == Consistency::kRelaxed) {
    return Missing::kOrigin;
  }
  if (memory::mutated(memory::Mutation::kLateAsLocal)) return Missing::kOrigin;
  const Reach reach = state_.region->origin->reach();
  return reach == Reach::kPrompt || reach == Reach::kSlow ? Missing::kAnswer : Missing::kOrigin;
}

// The origin does not answer: the loss policy bounds what this process may accept, and while the
// origin is not lost, its allowance.
void Engine::degrade(RequestContext& context, Missing missing) {
  state_.counters->add(Stat::kUnread);
  if (context.cell_class() != CellClass::kWindow) return degrade_exact(context, missing);
  const OnOriginLoss policy = context.on_origin_loss.value_or(
      state_.region->on_origin_loss.load(std::memory_order_relaxed));
  context.query.bound =
      missing == Missing::kAnswer && policy != OnOriginLoss::kDeny
          ? regional::bound_while_late(*state_.region, *state_.tuples, context.key, context.query)
          : regional::bound_while_lost(*state_.region, *state_.tuples, context.key, context.query,
                                       policy);
}

// The same for a request on state that cannot be divided into counts: its limit is divided.
void Engine::degrade_exact(RequestContext& context, Missing missing) const {
  if (context.denied_by_loss || context.undivided_capacity) return;
  // An answer that is late may still have charged the request: then it is charged twice.
  context.unknown_to_origin = true;
  const OnOriginLoss policy = context.on_origin_loss.value_or(
      state_.region->on_origin_loss.load(std::memory_order_relaxed));
  if (missing == Missing::kAnswer) context.standing_denial = standing_denial_of(context);
  if (policy == OnOriginLoss::kDeny || context.standing_denial) {
    context.denied_by_loss = true;
  } else if (policy == OnOriginLoss::kShare || missing == Missing::kAnswer) {
    context.undivided_capacity = context.query.ask.capacity;
    context.query.whole = {.limit = context.query.limit, .capacity = context.query.ask.capacity};
    // What the origin has granted is unknown, so a late answer allows a quarter of the share.
    const uint32_t parts = missing == Missing::kAnswer ? regional::kAllowanceParts : 1;
    const uint32_t nodes = std::max<uint32_t>(state_.region->origin->live_nodes(), 1);
    regional::divide(context.query, parts * nodes);
  }
}

// The denial by the origin that still holds; none: it might admit the request.
std::optional<CellDecision> Engine::standing_denial_of(const RequestContext& context) const {
  const epoch::Guard guard;
  const memory::Tuple tuple = state_.tuples->table.find(context.key);
  if (!tuple || context.query.ask.cost == 0 || !memory::fits(tuple, context.query)) {
    return std::nullopt;
  }
  const memory::ExactUse use(tuple);
  return regional::standing_denial(use, use.denial(), context.query,
                                   state_.tuples->clock.now().mono);
}

// A peek at a tuple that is not in the table uses the counts read and creates nothing. A tuple that
// was created during the read, or will be created again after an eviction, did not get them.
Basis Engine::basis_after_read(const regional::ReadResult& read, RequestContext& context) {
  if (!read.answered) {
    degrade(context, Missing::kOrigin);
    return Basis::kDegraded;
  }
  if (read.merged) return Basis::kRefreshed;
  context.region_counts = read.counts;
  if (state_.global && read.regions != nullptr) {
    const auto at = algorithms::position_of(context.query.now, context.query.duration);
    context.ledger_totals =
        global::totals_of(*read.regions, state_.global->shared.region(), at.sequence);
  }
  const bool is_peek = context.query.ask.cost == 0;
  return is_peek && !decider_.peek(context) ? Basis::kRefreshed : Basis::kDegraded;
}

// Whether a tuple that was fresh enough has been evicted since, and perhaps created again: then it
// was not read, or its read failed. A peek that used the counts read needs no tuple.
bool Engine::is_unread(const RequestContext& context) const {
  if (!state_.tuples->has_origin() || context.cell_class() != CellClass::kWindow) return false;
  if (context.is_apart) return false;
  const epoch::Guard guard;
  const memory::Tuple tuple = state_.tuples->table.find(context.key);
  if (!tuple || !state_.tuples->is_current(tuple, context.query)) {
    return context.query.ask.cost > 0 || !context.region_counts;
  }
  const Freshness freshness = regional::freshness_of(WindowCells(tuple));
  return freshness.never() || freshness.has_failed();
}

}  // namespace weir::decide
