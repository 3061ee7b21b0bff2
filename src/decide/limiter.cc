// The public class of embedders: reads the time once per call and passes it down.

#include "weir/limiter.h"

#include <utility>

#include "decide/engine.h"

namespace weir {

Limiter::Limiter(const Clock& clock, Options options)
    : clock_(&clock), engine_(decide::Engine::make(clock, options)) {}
Limiter::~Limiter() = default;
Limiter::Limiter(Limiter&&) noexcept = default;
Limiter& Limiter::operator=(Limiter&&) noexcept = default;

Result<Verdict> Limiter::check(const Request& request) {
  return check(clock_->now(), request);
}

Result<Verdict> Limiter::check(Instant now, const Request& request) {
  return engine_->check(now, request);
}

void Limiter::check_each(Instant now, std::span<const Request> requests,
                         std::span<Result<Verdict>> verdicts) {
  engine_->check_each(now, requests, verdicts);
}

bool Limiter::check_each_async(Instant now, std::span<const Request> requests,
                               std::span<Result<Verdict>> verdicts, Executor& home,
                               std::function<void()> done) {
  return engine_->check_each_async(now, requests, verdicts, home, std::move(done));
}

Result<BatchVerdict> Limiter::check_all(std::span<const Request> requests) {
  return check_all(clock_->now(), requests);
}

Result<BatchVerdict> Limiter::check_all(Instant now, std::span<const Request> requests) {
  return engine_->check_all(now, requests);
}

void Limiter::check_async(Instant now, const Request& request, Executor& home,
                          std::function<void(Result<Verdict>)> done) {
  engine_->check_async(now, request, home, std::move(done));
}

void Limiter::check_all_async(Instant now, std::span<const Request> requests, Executor& home,
                              std::function<void(Result<BatchVerdict>)> done) {
  engine_->check_all_async(now, requests, home, std::move(done));
}

Result<bool> Limiter::reset(Instant now, const Request& request) {
  return engine_->reset(now, request);
}

bool Limiter::may_wait() const {
  return engine_->may_wait();
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

SyncStats Limiter::sync_stats() const {
  return engine_->sync_stats();
}

WorkReport Limiter::run_sweep(Instant now, size_t slots) {
  return engine_->run_sweep(now, slots);
}

SaveReport Limiter::save(Instant now, Saving saving,
                         const std::function<void(std::string_view)>& write) {
  return engine_->save(now, saving, write);
}

bool Limiter::restore(Instant now, std::string_view record) {
  return engine_->restore(now, record);
}

void Limiter::set_on_origin_loss(OnOriginLoss policy) {
  engine_->set_on_origin_loss(policy);
}

LimiterStats Limiter::stats() const {
  return engine_->stats();
}

}  // namespace weir
