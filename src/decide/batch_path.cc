// The path of a batch: validate all requests, read the origin for those that need it, decide them
// together.

#include <algorithm>
#include <string>
#include <utility>

#include "decide/engine.h"
#include "decide/validate.h"
#include "regional/freshness.h"

namespace weir::decide {

using regional::ReadRequirement;

namespace {

// Whether only the origin has the state of an item that it is asked for: this process cannot take
// back what the origin has charged.
bool is_exact(const RequestContext& context) {
  return context.cell_class() != memory::CellClass::kWindow || context.is_apart;
}

bool names_past(std::span<const Request> requests) {
  return std::any_of(requests.begin(), requests.end(),
                     [](const Request& each) { return each.past != nullptr; });
}

bool is_refusal(const regional::StepResult& result) {
  return result.status == regional::StepResult::Status::kDecided &&
         !result.decision.decision.admitted();
}

}  // namespace

Result<std::vector<RequestContext>> Engine::contexts_of(Instant now,
                                                        std::span<const Request> requests) const {
  if (auto error = validate_batch_size(requests.size())) return std::move(*error);
  std::vector<RequestContext> contexts;
  contexts.reserve(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    if (auto error = validate(requests[i])) {
      error->field = "requests[" + std::to_string(i) + "]." + error->field;
      return std::move(*error);
    }
    contexts.emplace_back(now, requests[i], state_.tuples->hash);
  }
  return contexts;
}

Result<BatchVerdict> Engine::check_all(Instant now, std::span<const Request> requests) {
  if (names_past(requests)) [[unlikely]]
    return check_all_after_change(now, requests);
  auto contexts = contexts_of(now, requests);
  if (!contexts) return contexts.error();
  std::vector<Basis> bases;
  for (RequestContext& context : contexts.value()) {
    const ReadRequirement requirement = read_requirement(context, Waiting::kImpossible);
    if (requirement == ReadRequirement::kDegrade) degrade(context, Missing::kOrigin);
    bases.push_back(regional::basis_without_reading(requirement));
  }
  BatchVerdict verdict = decide_all(contexts.value(), bases, kNoAnswers);
  count_batch(verdict);
  return verdict;
}

// One batch that waits for the origin.
struct Engine::BatchCall {
  std::vector<RequestContext> contexts;
  std::vector<Basis> bases;
  Executor* home = nullptr;
  BatchHandler done;
  std::vector<size_t> reads;       // items to read
  bool denied = false;             // an item was refused when the batch came, or after a read
  std::vector<size_t> asks;        // items that the origin must decide
  std::vector<size_t> asks_later;  // the same, after a read
  std::vector<std::optional<regional::StepResult>> answers;  // by item
  // Of the items whose whole state the origin keeps: those that it would deny, and those that it
  // would admit.
  std::vector<size_t> doubtful;
  std::vector<size_t> uncharged;
  bool refused_by_origin = false;
};

bool Engine::check_all_async(Instant now, std::span<const Request> requests, Executor& home,
                             BatchHandler done) {
  if (names_past(requests)) [[unlikely]]
    return check_all_async_after_change(now, requests, home, std::move(done));
  auto valid = contexts_of(now, requests);
  if (!valid) {
    done(valid.error());
    return true;
  }
  auto call = std::make_shared<BatchCall>();
  call->contexts = std::move(valid.value());
  call->home = &home;
  call->done = std::move(done);
  std::vector<regional::ReadRequest> reads;
  for (size_t i = 0; i < call->contexts.size(); ++i) {
    RequestContext& context = call->contexts[i];
    ReadRequirement requirement = read_requirement(context, Waiting::kPossible);
    // The origin decides the items of a batch whose state it keeps: an allowance is for one
    // request.
    if (is_exact(context) && context.query.bound.is_set()) {
      context.query.bound = {};
      requirement = ReadRequirement::kAsk;
    }
    if (requirement == ReadRequirement::kDegrade) degrade(context, missing_now(context));
    call->bases.push_back(regional::basis_without_reading(requirement));
    call->denied = call->denied || requirement == ReadRequirement::kRefused;
    if (requirement == ReadRequirement::kAsk) call->asks.push_back(i);
    if (!regional::is_read(requirement)) continue;
    call->reads.push_back(i);
    reads.push_back(
        {.key = &context.key, .duration = context.query.duration, .requirement = requirement});
  }
  // A batch with a refused item is denied whatever the origin answers, but every item reports its
  // remaining limit and so needs its counts. If the origin must decide several items, they are read
  // first: what it granted to the others would be lost if it refused one.
  const auto windows = std::count_if(call->asks.begin(), call->asks.end(),
                                     [&](size_t item) { return !is_exact(call->contexts[item]); });
  const bool asks_later = !call->denied && windows > 1;
  if (asks_later) call->asks_later = call->asks;
  if (call->denied || asks_later) {
    for (const size_t item : std::exchange(call->asks, {})) {
      // Decided on what this process knows.
      if (is_exact(call->contexts[item])) continue;
      call->reads.push_back(item);
      reads.push_back({.key = &call->contexts[item].key,
                       .duration = call->contexts[item].query.duration,
                       .requirement = ReadRequirement::kStale});
    }
  }
  if (reads.empty() && call->asks.empty()) {
    finish_batch(now, call);
    return true;
  }
  if (reads.empty()) {
    ask_all(now, call);
    return false;
  }
  refresh_->read(
      now, reads, home,
      [self = shared_from_this(), now, call](const std::vector<regional::ReadResult>& results) {
        for (size_t i = 0; i < results.size(); ++i) {
          const size_t item = call->reads[i];
          call->bases[item] = self->basis_after_read(results[i], call->contexts[item]);
        }
        if (!call->asks_later.empty()) self->choose_asks(call);
        if (!call->asks.empty()) return self->ask_all(now, call);
        self->finish_batch(now, call);
      });
  return false;
}

// After the read: the origin decides the items, unless it would refuse one.
void Engine::choose_asks(const std::shared_ptr<BatchCall>& call) {
  call->asks = std::exchange(call->asks_later, {});
  for (const size_t item : call->asks) {
    RequestContext& context = call->contexts[item];
    if (is_exact(context)) continue;
    const auto known = decider_.peek(context);
    if (!known || known->decision.admitted()) continue;
    context.refusal = known;
    call->denied = true;
  }
  if (call->denied) call->asks.clear();
}

// The origin decides each of these items alone. If the batch is denied, the costs of windows are
// taken back. A cost on state that the origin keeps whole cannot be: such items are first asked
// about, and charged when nothing else stands against the batch.
void Engine::ask_all(Instant now, const std::shared_ptr<BatchCall>& call) {
  call->answers.resize(call->contexts.size());
  const bool alone = call->contexts.size() == 1;
  const auto owned = std::make_shared<std::vector<memory::Query>>();
  std::vector<memory::Query>& queries = *owned;
  queries.reserve(call->asks.size());
  std::vector<regional::StepRequest> requests;
  for (const size_t item : call->asks) {
    RequestContext& context = call->contexts[item];
    context.query.bound = {};
    queries.push_back(context.query);
    if (is_exact(context) && !alone) queries.back().ask.cost = 0;
    requests.push_back({.key = &context.key, .query = &queries.back()});
  }
  ask(now, requests, owned, *call->home,
      [self = shared_from_this(), now, call,
       alone](const std::vector<regional::StepResult>& results) {
        for (size_t i = 0; i < results.size(); ++i) {
          const size_t item = call->asks[i];
          call->answers[item] = results[i];
          if (is_exact(call->contexts[item]) && !alone) {
            self->sort_out(*call, item);
          } else if (is_refusal(results[i])) {
            call->refused_by_origin = true;
          }
        }
        self->charge_next(now, call);
      });
}

// Takes what the origin has left for an item, and what the items before it will use of that.
void Engine::sort_out(BatchCall& call, size_t item) {
  using Status = regional::StepResult::Status;
  const RequestContext& context = call.contexts[item];
  regional::StepResult& answer = *call.answers[item];
  const Count cost = context.query.ask.cost;
  if (answer.status != Status::kDecided || cost == 0) {
    call.refused_by_origin = call.refused_by_origin || is_refusal(answer);
    return;
  }
  const Count left = answer.decision.decision.remaining;
  if (cost > left) {
    call.doubtful.push_back(item);
    return;
  }
  Count before = 0;
  for (const size_t other : call.uncharged) {
    if (call.contexts[other].key == context.key) before += call.contexts[other].query.ask.cost;
  }
  if (before + cost <= left) {
    call.uncharged.push_back(item);
    return;
  }
  call.refused_by_origin = true;
  answer.decision = Decider::deny_for_one_tick(context);
  answer.decision.decision.remaining = base::saturating_sub(left, before);
}

// Asks for the items that the origin has not charged yet; first for those that it would deny, since
// only a denial says until when.
void Engine::charge_next(Instant now, const std::shared_ptr<BatchCall>& call) {
  std::vector<size_t> items = std::exchange(call->doubtful, {});
  if (items.empty() && !call->refused_by_origin) items = std::exchange(call->uncharged, {});
  if (items.empty()) return finish_batch(now, call);
  std::vector<regional::StepRequest> requests;
  for (const size_t item : items) {
    requests.push_back({.key = &call->contexts[item].key, .query = &call->contexts[item].query});
  }
  ask_after_usage(state_.tuples->clock.now(), std::move(requests), call, *call->home,
                  [self = shared_from_this(), now, call,
                   items = std::move(items)](const std::vector<regional::StepResult>& results) {
                    for (size_t i = 0; i < results.size(); ++i) {
                      call->answers[items[i]] = results[i];
                      call->refused_by_origin = call->refused_by_origin || is_refusal(results[i]);
                    }
                    self->charge_next(now, call);
                  });
}

void Engine::finish_batch(Instant now, const std::shared_ptr<BatchCall>& call) {
  using Status = regional::StepResult::Status;
  BatchAnswers decided(call->contexts.size());
  for (size_t i = 0; i < call->contexts.size() && call->denied; ++i) {
    decided[i] = call->contexts[i].refusal;
  }
  for (size_t item = 0; item < call->answers.size(); ++item) {
    if (!call->answers[item]) continue;
    RequestContext& context = call->contexts[item];
    const regional::StepResult& answer = *call->answers[item];
    call->bases[item] = answer.status == Status::kDecided ? Basis::kRefreshed : Basis::kDegraded;
    if (answer.status == Status::kLate) {
      degrade(context, missing_now(context));
    } else {
      decided[item] = answer.status == Status::kDecided ? answer.decision : deny_moved(context);
    }
  }
  for (size_t i = 0; i < call->contexts.size(); ++i) {
    if (call->contexts[i].denied_by_loss) decided[i] = deny_moved(call->contexts[i]);
  }
  std::vector<size_t> by_allowance;
  for (size_t i = 0; i < call->contexts.size(); ++i) {
    const bool bounded = call->contexts[i].query.bound.is_set();
    if (bounded && call->bases[i] == Basis::kLocal) by_allowance.push_back(i);
  }
  BatchVerdict verdict = decide_all(call->contexts, call->bases, decided);
  // Other requests may have used an allowance up meanwhile: then the origin decides.
  if (verdict.outcome == Outcome::kDenied && call->asks.empty() && !by_allowance.empty()) {
    call->asks = by_allowance;
    return ask_all(now, call);
  }
  count_batch(verdict);
  for (size_t i = 0; i < decided.size(); ++i) {
    const RequestContext& context = call->contexts[i];
    if (context.unknown_to_origin && verdict.outcome == Outcome::kAdmitted) note_own(context);
    if (decided[i] && verdict.outcome == Outcome::kAdmitted) charge_after_answer(call->contexts[i]);
  }
  call->done(std::move(verdict));
}

void Engine::count_batch(const BatchVerdict& verdict) {
  for (Verdict item : verdict.items) {
    // An item that would have passed alone was denied with the batch.
    if (verdict.outcome != Outcome::kAdmitted && item.admitted()) item.outcome = Outcome::kDenied;
    count(item);
  }
}

BatchVerdict Engine::decide_all(std::vector<RequestContext>& contexts, std::vector<Basis> bases,
                                const BatchAnswers& decided) {
  for (RequestContext& context : contexts) {
    if (shares_as_region(context.query.algorithm, context.consistency)) charge_foreign(context);
  }
  BatchDecision decision = Batch(decider_, state_, contexts, decided).run();
  for (int retry = 0; decision.late && retry < kMaxLateRetries; ++retry) {
    // So late that its windows are over: decided at the present time.
    const Instant now = state_.tuples->clock.now();
    for (size_t i = 0; i < contexts.size(); ++i) {
      contexts[i].set_time(now);
      // What the origin had granted was taken back.
      if (decided.empty() || !decided[i]) continue;
      degrade(contexts[i], Missing::kAnswer);
      bases[i] = Basis::kDegraded;
    }
    decision = Batch(decider_, state_, contexts).run();
  }
  if (decision.late) {
    for (const RequestContext& context : contexts) {
      decision.items.push_back(Decider::deny_for_one_tick(context));
    }
  }
  BatchVerdict verdict{.outcome = decision.admitted ? Outcome::kAdmitted : Outcome::kDenied};
  for (size_t i = 0; i < contexts.size(); ++i) {
    Verdict& item = verdict.items.emplace_back();
    fill(contexts[i].query, decision.items[i], bases[i], item);
    if (contexts[i].undivided_capacity) undo_division(contexts[i], item);
    // Another item, or a request that came during the read, may have evicted its tuple.
    if (item.admitted() && is_unread(contexts[i])) item.basis = Basis::kDegraded;
    if (item.outcome == Outcome::kNever) verdict.outcome = Outcome::kNever;
  }
  if (verdict.outcome != Outcome::kAdmitted) return verdict;
  for (const RequestContext& context : contexts) {
    if (!shares_as_region(context.query.algorithm, context.consistency)) continue;
    count_for_regions(context.now, context.key, context.query);
  }
  return verdict;
}

}  // namespace weir::decide
