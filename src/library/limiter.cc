// The public class: reads the clock once per call, and waits for the origin on behalf of threads.

#include "weir/limiter.h"

#include <utility>

#include "decide/engine.h"
#include "memory/memory_plan.h"
#include "platform/blocking_executor.h"

namespace weir {
namespace {

// One blocking call. Shared with its handler: after a missed deadline the handler is dropped with
// the waiter that holds it, which may be later than the call returns.
template <typename T>
struct BlockingCall {
  explicit BlockingCall(const Clock& its_clock) : clock(&its_clock), home(its_clock) {}
  const Clock* clock;
  platform::BlockingExecutor home;
  T result{};
};

// A call that did not have to wait is kept for the next one of its thread: such calls allocate
// nothing.
template <typename T>
std::shared_ptr<BlockingCall<T>>& spare_call() {
  thread_local std::shared_ptr<BlockingCall<T>> spare;
  return spare;
}

template <typename T>
std::shared_ptr<BlockingCall<T>> take_call(const Clock& clock) {
  std::shared_ptr<BlockingCall<T>> call = std::move(spare_call<T>());
  if (call != nullptr && call->clock == &clock) return call;
  return std::make_shared<BlockingCall<T>>(clock);
}

template <typename T>
T keep_call(std::shared_ptr<BlockingCall<T>> call) {
  T result = std::exchange(call->result, T{});
  spare_call<T>() = std::move(call);
  return result;
}

struct Nothing {};

// A decision has a limit of 1 or more, so a verdict without one is still undecided.
bool is_undecided(const Result<Verdict>& verdict) {
  return verdict.ok() && verdict->limit == 0;
}

}  // namespace

Result<Limiter> Limiter::create(const Clock& clock, Options options) {
  if (auto error = error_in(options)) return std::move(*error);
  return Limiter(clock, options);
}

Limiter::Limiter(const Clock& clock, const Options& options)
    : clock_(&clock),
      engine_(decide::Engine::make(clock, options)),
      capacity_(memory::memory_plan(options).capacity),
      read_deadline_(options.read_deadline),
      waits_(engine_->may_wait()),
      has_ledger_(options.ledger != nullptr) {}
Limiter::~Limiter() = default;
Limiter::Limiter(Limiter&&) noexcept = default;
Limiter& Limiter::operator=(Limiter&&) noexcept = default;

Result<Verdict> Limiter::check(const Request& request) {
  return check(clock_->now(), request);
}

Result<Verdict> Limiter::check(Instant now, const Request& request) {
  if (!waits_) [[likely]]
    return engine_->check(now, request);
  return check_and_wait(now, request);
}

[[gnu::noinline]] Result<Verdict> Limiter::check_and_wait(Instant now, const Request& request) {
  auto call = take_call<Result<Verdict>>(*clock_);
  if (engine_->check_each_async(now, std::span(&request, 1), std::span(&call->result, 1),
                                call->home, [call] { call->home.finish(); })) {
    return keep_call(std::move(call));
  }
  if (call->home.wait(now.mono + read_deadline_)) return std::move(call->result);
  return engine_->check(now, request);
}

void Limiter::check_each(Instant now, std::span<const Request> requests,
                         std::span<Result<Verdict>> verdicts) {
  if (!waits_) [[likely]]
    return engine_->check_each(now, requests, verdicts);
  auto call = take_call<Nothing>(*clock_);
  if (engine_->check_each_async(now, requests, verdicts, call->home,
                                [call] { call->home.finish(); })) {
    keep_call(std::move(call));
    return;
  }
  if (call->home.wait(now.mono + read_deadline_)) return;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (is_undecided(verdicts[i])) verdicts[i] = engine_->check(now, requests[i]);
  }
}

Result<BatchVerdict> Limiter::check_all(std::span<const Request> requests) {
  return check_all(clock_->now(), requests);
}

Result<BatchVerdict> Limiter::check_all(Instant now, std::span<const Request> requests) {
  if (!waits_) [[likely]]
    return engine_->check_all(now, requests);
  const auto call = std::make_shared<BlockingCall<Result<BatchVerdict>>>(*clock_);
  const bool decided =
      engine_->check_all_async(now, requests, call->home, [call](Result<BatchVerdict> verdict) {
        call->result = std::move(verdict);
        call->home.finish();
      });
  if (decided || call->home.wait(now.mono + read_deadline_)) return std::move(call->result);
  return engine_->check_all(now, requests);
}

Result<Verdict> Limiter::check_local(const Request& request) {
  return check_local(clock_->now(), request);
}

Result<Verdict> Limiter::check_local(Instant now, const Request& request) {
  return engine_->check(now, request);
}

void Limiter::check_each_local(Instant now, std::span<const Request> requests,
                               std::span<Result<Verdict>> verdicts) {
  engine_->check_each(now, requests, verdicts);
}

Result<BatchVerdict> Limiter::check_all_local(std::span<const Request> requests) {
  return check_all_local(clock_->now(), requests);
}

Result<BatchVerdict> Limiter::check_all_local(Instant now, std::span<const Request> requests) {
  return engine_->check_all(now, requests);
}

Completion Limiter::check_async(Instant now, const Request& request, Executor& home,
                                VerdictHandler handler) {
  const bool decided = engine_->check_async(now, request, home, std::move(handler));
  return decided ? Completion::kImmediate : Completion::kPending;
}

Completion Limiter::check_each_async(Instant now, std::span<const Request> requests,
                                     std::span<Result<Verdict>> verdicts, Executor& home,
                                     Task handler) {
  // The engine takes the handler only if it returns false.
  if (!engine_->check_each_async(now, requests, verdicts, home, std::move(handler))) {
    return Completion::kPending;
  }
  handler();
  return Completion::kImmediate;
}

Completion Limiter::check_all_async(Instant now, std::span<const Request> requests, Executor& home,
                                    BatchHandler handler) {
  const bool decided = engine_->check_all_async(now, requests, home, std::move(handler));
  return decided ? Completion::kImmediate : Completion::kPending;
}

Result<bool> Limiter::reset(Instant now, const Request& request) {
  return engine_->reset(now, request);
}

void Limiter::set_consistency(Consistency consistency) {
  engine_->set_consistency(consistency);
}

void Limiter::set_on_origin_loss(OnOriginLoss policy) {
  engine_->set_on_origin_loss(policy);
}

WorkReport Limiter::run_replay(Instant now, Executor& timers, Flush flush) {
  return engine_->run_replay(now, timers, flush);
}

WorkReport Limiter::run_shutdown(Instant now) {
  return engine_->run_shutdown(now);
}

WorkReport Limiter::run_sync(Instant now, Flush flush) {
  return engine_->run_sync(now, flush);
}

WorkReport Limiter::run_sweep(Instant now, size_t slots) {
  return engine_->run_sweep(now, slots);
}

LimiterStats Limiter::stats() const {
  return engine_->stats();
}

SyncStats Limiter::sync_stats() const {
  return engine_->sync_stats();
}

SaveReport Limiter::save(Instant now, Saving saving,
                         const std::function<void(std::string_view)>& write) {
  return engine_->save(now, saving, write);
}

bool Limiter::restore(Instant now, std::string_view record) {
  return engine_->restore(now, record);
}

}  // namespace weir
