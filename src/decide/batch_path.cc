// The path of a batch: validate all requests, read the origin for those that need it, decide them
// together.

#include <algorithm>
#include <string>
#include <utility>

#include "base/mutation.h"
#include "base/wide.h"
#include "decide/engine.h"
#include "decide/validate.h"
#include "regional/exact_share.h"
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
    if (requests[i].consistency != requests[0].consistency &&
        base::mutated(base::Mutation::kConsistencyOfFirst)) {
      contexts[i].consistency = requests[0].consistency;
    }
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
  // An item whose whole state the origin keeps, and that it would deny now.
  struct DeniedOnPeek {
    size_t item = 0;
    Count left = 0;
    Millis wait{0};  // until its cost fits, if what was admitted leaves evenly
  };
  std::vector<RequestContext> contexts;
  std::vector<Basis> bases;
  regional::Caller caller;
  BatchHandler done;
  std::vector<size_t> reads;                                 // items to read
  bool denied = false;                                       // by what this process knows
  std::vector<size_t> asks;                                  // items that the origin must decide
  std::vector<std::optional<regional::StepResult>> answers;  // by item
  // Of the items that the origin must decide, those that it has not charged yet.
  std::vector<DeniedOnPeek> denied_on_peek;
  std::vector<size_t> windows;
  std::vector<size_t> admitted_on_peek;
  bool refused = false;  // so nothing may be charged any more
};

bool Engine::check_all_async(Instant now, std::span<const Request> requests,
                             const regional::Caller& caller, BatchHandler done) {
  if (names_past(requests)) [[unlikely]]
    return check_all_async_after_change(now, requests, caller, std::move(done));
  auto valid = contexts_of(now, requests);
  if (!valid) {
    done(valid.error());
    return true;
  }
  auto call = std::make_shared<BatchCall>();
  call->contexts = std::move(valid.value());
  call->caller = caller;
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
  if (call->denied) {
    // They report what this process knows.
    std::erase_if(call->asks, [&](size_t item) { return is_exact(call->contexts[item]); });
  }
  return read_then_ask(now, call, std::move(reads));
}

// Reads the origin, then asks it.
bool Engine::read_then_ask(Instant now, const std::shared_ptr<BatchCall>& call,
                           std::vector<regional::ReadRequest> reads) {
  // A batch with a refused item is denied whatever the origin answers, but every item reports its
  // remaining limit and so needs its counts. If the origin must decide several items, windows are
  // read first: what it granted to others would be lost if it refused one.
  if (call->denied || call->asks.size() > 1) {
    for (const size_t item : call->asks) {
      // It is asked what is left.
      if (is_exact(call->contexts[item])) continue;
      call->reads.push_back(item);
      reads.push_back({.key = &call->contexts[item].key,
                       .duration = call->contexts[item].query.duration,
                       .requirement = ReadRequirement::kStale});
    }
  }
  if (reads.empty()) return call->asks.empty() ? finish_batch(now, call) : ask_all(now, call);
  refresh_->read(
      now, reads, call->caller,
      [self = shared_from_this(), call](const std::vector<regional::ReadResult>& results) {
        for (size_t i = 0; i < results.size(); ++i) {
          const size_t item = call->reads[i];
          call->bases[item] = self->basis_after_read(results[i], call->contexts[item]);
        }
        const Instant then = self->state_.tuples->clock.now();
        (void)(call->asks.empty() ? self->finish_batch(then, call) : self->ask_all(then, call));
      });
  return false;
}

// Whether the batch would be denied without the origin: by an item that this process decides, or by
// the known counts of a window. Then nothing may be charged at the origin.
bool Engine::is_denied_here(BatchCall& call) {
  BatchAnswers answers(call.contexts.size());
  for (const size_t item : call.asks) {
    // Only the origin knows.
    if (!is_exact(call.contexts[item])) continue;
    answers[item].emplace().decision.outcome = Outcome::kAdmitted;
  }
  for (size_t i = 0; i < call.contexts.size(); ++i) {
    if (call.contexts[i].denied_by_loss) answers[i] = deny_evicted(call.contexts[i]);
  }
  const auto denial = Batch(decider_, state_, call.contexts, answers).trial();
  // The refusal of a window is the origin's, so that all processes learn of it.
  const bool is_only_ask = denial && call.asks.size() == 1 && call.asks[0] == denial->item;
  if (!denial || is_only_ask) return false;
  call.contexts[denial->item].refusal = denial->result;
  call.denied = true;
  return true;
}

// The origin decides each of these items alone. If the batch is denied, the process takes the costs
// of windows back, and the origin keeps them for its next requests; a cost on state that the origin
// keeps whole stays charged. So everything that can deny the batch is asked first. When nothing
// stands against it, the windows are charged, then the other items. Returns as read_then_ask().
bool Engine::ask_all(Instant now, const std::shared_ptr<BatchCall>& call) {
  for (const size_t item : call->asks) {
    if (!call->denied) call->contexts[item].query.bound = {};
  }
  call->answers.resize(call->contexts.size());
  const bool is_only = call->asks.size() == 1 && !call->denied;
  if (is_only && call->contexts.size() > 1 && is_denied_here(*call)) {
    // The item still reports what is left.
    call->reads.clear();
    return read_then_ask(now, call, {});
  }
  std::vector<size_t> kept;
  for (const size_t item : call->asks) {
    (is_exact(call->contexts[item]) ? kept : call->windows).push_back(item);
  }
  if (is_only) call->admitted_on_peek = std::exchange(kept, {});
  if (kept.empty()) {
    call->refused = !is_only && (call->denied || is_denied_here(*call));
    charge_next(now, call);
    return false;
  }
  const auto peeks = std::make_shared<std::vector<memory::Query>>();
  peeks->reserve(kept.size());
  std::vector<regional::StepRequest> requests;
  for (const size_t item : kept) {
    peeks->push_back(call->contexts[item].query);
    peeks->back().ask.cost = 0;
    requests.push_back({.key = &call->contexts[item].key, .query = &peeks->back()});
  }
  ask(now, requests, peeks, call->caller,
      [self = shared_from_this(), call,
       kept = std::move(kept)](const std::vector<regional::StepResult>& results) {
        for (size_t i = 0; i < results.size(); ++i) {
          call->answers[kept[i]] = results[i];
          self->classify_peek(*call, kept[i]);
        }
        call->refused = call->refused || call->denied || self->is_denied_here(*call);
        self->charge_next(self->state_.tuples->clock.now(), call);
      });
  return false;
}

// Takes what the origin has left for an item, and what the items before it will use of that.
void Engine::classify_peek(BatchCall& call, size_t item) {
  const RequestContext& context = call.contexts[item];
  regional::StepResult& answer = *call.answers[item];
  const memory::Query& query = context.query;
  const Count cost = query.ask.cost;
  if (answer.status != regional::StepResult::Status::kDecided || cost == 0) {
    return note_answer(call, item);
  }
  // It has charged nothing, so a denied batch takes nothing back, even if a tuple was created
  // since.
  answer.decision.generation = 0;
  const Count left = answer.decision.decision.remaining;
  if (cost > left) {
    const uint64_t wait = base::mul_div(cost - left, static_cast<uint64_t>(query.duration.count()),
                                        std::max<Count>(query.limit, 1));
    constexpr auto kLongest = static_cast<uint64_t>(regional::kLongestWait.count());
    call.denied_on_peek.push_back({.item = item,
                                   .left = left,
                                   .wait = Millis(static_cast<int64_t>(std::min(wait, kLongest)))});
    return;
  }
  Count before = 0;
  for (const size_t other : call.admitted_on_peek) {
    if (call.contexts[other].key == context.key) before += call.contexts[other].query.ask.cost;
  }
  if (before + cost <= left) {
    call.admitted_on_peek.push_back(item);
    return;
  }
  call.refused = true;
  answer.decision = Decider::deny_for_one_tick(context);
  answer.decision.decision.remaining = base::saturating_sub(left, before);
}

// An item without an answer is decided by this process, whose share may deny it.
void Engine::note_answer(BatchCall& call, size_t item) {
  using Status = regional::StepResult::Status;
  RequestContext& context = call.contexts[item];
  const regional::StepResult& answer = *call.answers[item];
  bool denied = answer.status == Status::kEvicted || !answer.decision.decision.admitted();
  if (answer.status == Status::kLate) {
    degrade(context, missing_now(context));
    const auto known = decider_.peek(context);
    memory::CellDecision here = known ? *known : decider_.decide_without_tuple(context);
    // The sketch will decide within the bound.
    const memory::Query& query = context.query;
    const bool beyond = !known && query.bound.is_set() && query.ask.cost > query.bound.most;
    if (beyond && here.decision.admitted()) here = Decider::deny_for_one_tick(context);
    if (context.denied_by_loss) here = deny_evicted(context);
    denied = !here.decision.admitted();
    if (denied) context.refusal = here;
    call.denied = call.denied || denied;
  }
  call.refused = call.refused || denied;
}

// Of the items that the origin would deny, those to ask about next: only a denial says until when.
// One of them may fit by then, and would be charged. So the one that waits the longest is asked
// first; after its denial, only those that cannot fit soon.
std::vector<size_t> Engine::next_denied(BatchCall& call) const {
  auto& denied_on_peek = call.denied_on_peek;
  if (denied_on_peek.empty()) return {};
  std::vector<size_t> items;
  if (!call.refused) {
    const auto longest =
        std::max_element(denied_on_peek.begin(), denied_on_peek.end(),
                         [](const auto& one, const auto& other) { return one.wait < other.wait; });
    items.push_back(longest->item);
    denied_on_peek.erase(longest);
    return items;
  }
  for (const BatchCall::DeniedOnPeek& each : std::exchange(denied_on_peek, {})) {
    const RequestContext& context = call.contexts[each.item];
    const algorithms::Ask& ask = context.query.ask;
    // A window becomes free as a whole, perhaps now.
    const bool fits_soon = context.cell_class() == memory::CellClass::kWindow ||
                           each.wait <= 2 * state_.region->read_deadline;
    if (!fits_soon || ask.cost > ask.capacity) {
      items.push_back(each.item);
      continue;
    }
    memory::CellDecision& denial = call.answers[each.item]->decision;
    denial = Decider::deny_for_one_tick(context);
    denial.decision.remaining = each.left;
  }
  return items;
}

// Asks for the next items that the origin has not charged yet.
void Engine::charge_next(Instant now, const std::shared_ptr<BatchCall>& call) {
  std::vector<size_t> items = next_denied(*call);
  if (!call->refused) {
    if (items.empty()) items = std::exchange(call->windows, {});
    if (items.empty()) items = std::exchange(call->admitted_on_peek, {});
  }
  if (items.empty()) return (void)finish_batch(now, call);
  std::vector<regional::StepRequest> requests;
  for (const size_t item : items) {
    requests.push_back({.key = &call->contexts[item].key, .query = &call->contexts[item].query});
  }
  ask(now, std::move(requests), call, call->caller,
      [self = shared_from_this(), call,
       items = std::move(items)](const std::vector<regional::StepResult>& results) {
        for (size_t i = 0; i < results.size(); ++i) {
          call->answers[items[i]] = results[i];
          self->note_answer(*call, items[i]);
        }
        self->charge_next(self->state_.tuples->clock.now(), call);
      });
}

bool Engine::finish_batch(Instant now, const std::shared_ptr<BatchCall>& call) {
  using Status = regional::StepResult::Status;
  BatchAnswers decided(call->contexts.size());
  for (size_t i = 0; i < call->contexts.size() && call->denied; ++i) {
    decided[i] = call->contexts[i].refusal;
  }
  for (size_t item = 0; item < call->answers.size(); ++item) {
    if (!call->answers[item]) continue;
    const RequestContext& context = call->contexts[item];
    const regional::StepResult& answer = *call->answers[item];
    call->bases[item] = answer.status == Status::kDecided ? Basis::kRefreshed : Basis::kDegraded;
    if (answer.status == Status::kLate) continue;
    decided[item] = answer.status == Status::kDecided ? answer.decision : deny_evicted(context);
  }
  for (size_t i = 0; i < call->contexts.size(); ++i) {
    if (call->contexts[i].denied_by_loss) decided[i] = deny_evicted(call->contexts[i]);
  }
  for (size_t i = 0; i < call->contexts.size(); ++i) {
    RequestContext& context = call->contexts[i];
    // Its tuple may have been removed while the batch waited. The new one does not know what was
    // used since the request came.
    const bool waited = context.now.mono < now.mono;
    if (waited && !decided[i] && is_exact(context) && !is_in_table(context.key)) {
      context.set_time(now);
    }
  }
  std::vector<size_t> by_allowance;
  for (size_t i = 0; i < call->contexts.size(); ++i) {
    const bool bounded = call->contexts[i].query.bound.is_set();
    if (bounded && call->bases[i] == Basis::kLocal) by_allowance.push_back(i);
  }
  BatchVerdict verdict = decide_all(call->contexts, call->bases, decided);
  // Other requests may have used an allowance up meanwhile: then the origin decides.
  if (verdict.outcome == Outcome::kDenied && !call->denied && call->asks.empty() &&
      !by_allowance.empty()) {
    call->asks = by_allowance;
    call->reads.clear();
    return read_then_ask(now, call, {});
  }
  count_batch(verdict);
  for (size_t i = 0; i < decided.size(); ++i) {
    const RequestContext& context = call->contexts[i];
    if (context.unknown_to_origin && verdict.outcome == Outcome::kAdmitted) note_own(context);
    if (decided[i] && verdict.outcome == Outcome::kAdmitted) charge_after_answer(call->contexts[i]);
  }
  call->done(std::move(verdict));
  return true;
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
    BatchAnswers denied(contexts.size());
    for (size_t i = 0; i < contexts.size(); ++i) {
      contexts[i].set_time(now);
      // What the origin had granted was taken back.
      if (decided.empty() || !decided[i]) continue;
      degrade(contexts[i], Missing::kAnswer);
      bases[i] = Basis::kDegraded;
      if (contexts[i].denied_by_loss) denied[i] = deny_evicted(contexts[i]);
    }
    decision = Batch(decider_, state_, contexts, denied).run();
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
