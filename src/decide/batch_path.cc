// The path of a batch: validate all requests, read the origin for those that need it, decide them
// together.

#include <string>
#include <utility>

#include "decide/engine.h"
#include "decide/validate.h"
#include "regional/freshness.h"

namespace weir::decide {

using regional::ReadRequirement;

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
  auto contexts = contexts_of(now, requests);
  if (!contexts) return contexts.error();
  std::vector<Basis> bases;
  for (RequestContext& context : contexts.value()) {
    const ReadRequirement requirement = read_requirement(context);
    if (requirement == ReadRequirement::kDegrade) degrade(context);
    bases.push_back(regional::basis_without_reading(requirement));
  }
  return decide_all(contexts.value(), bases);
}

bool Engine::check_all_async(Instant now, std::span<const Request> requests, Executor& home,
                             BatchHandler done) {
  auto valid = contexts_of(now, requests);
  if (!valid) {
    done(valid.error());
    return true;
  }
  auto contexts = std::make_shared<std::vector<RequestContext>>(std::move(valid.value()));
  auto bases = std::make_shared<std::vector<Basis>>();
  auto read_items = std::make_shared<std::vector<size_t>>();
  std::vector<regional::ReadRequest> reads;
  for (RequestContext& context : *contexts) {
    const ReadRequirement requirement = read_requirement(context);
    if (requirement == ReadRequirement::kDegrade) degrade(context);
    bases->push_back(regional::basis_without_reading(requirement));
    if (!regional::is_read(requirement)) continue;
    read_items->push_back(bases->size() - 1);
    reads.push_back(
        {.key = &context.key, .duration = context.query.duration, .requirement = requirement});
  }
  // A batch with a refused item is denied whatever a read returns, but every item reports its
  // remaining limit and so needs its read.
  if (reads.empty()) {
    done(decide_all(*contexts, *bases));
    return true;
  }
  refresh_->read(now, reads, home,
                 [self = shared_from_this(), contexts, bases, read_items,
                  done = std::move(done)](const std::vector<regional::ReadResult>& results) {
                   for (size_t i = 0; i < read_items->size(); ++i) {
                     const size_t item = (*read_items)[i];
                     (*bases)[item] = self->basis_after_read(results[i], (*contexts)[item]);
                   }
                   done(self->decide_all(*contexts, *bases));
                 });
  return false;
}

BatchVerdict Engine::decide_all(std::vector<RequestContext>& contexts,
                                const std::vector<Basis>& bases) {
  BatchDecision decision = Batch(decider_, state_, contexts).run();
  for (int retry = 0; decision.late && retry < kMaxLateRetries; ++retry) {
    // So late that its windows are over: decided at the present time.
    const Instant now = state_.tuples->clock.now();
    for (RequestContext& context : contexts) context.set_time(now);
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
    // Another item, or a request that came during the read, may have evicted its tuple.
    if (item.admitted() && is_unread(contexts[i])) item.basis = Basis::kDegraded;
    if (item.outcome == Outcome::kNever) verdict.outcome = Outcome::kNever;
  }
  for (Verdict item : verdict.items) {
    // An item that would have passed alone was denied with the batch.
    if (!decision.admitted && item.admitted()) item.outcome = Outcome::kDenied;
    count(item);
  }
  return verdict;
}

}  // namespace weir::decide
