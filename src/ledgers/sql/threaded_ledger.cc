#include "ledgers/sql/threaded_ledger.h"

#include <algorithm>
#include <concepts>
#include <utility>

#include "platform/entropy.h"

namespace weir::ledgers {

using telemetry::LedgerCall;
using telemetry::LedgerError;

namespace {

constexpr Nanos kTick = std::chrono::milliseconds(100);

// Whether fewer calls would help. A full server or a replica answers at once.
bool trips_breaker(LedgerError why) {
  return why == LedgerError::kUnreachable || why == LedgerError::kTimeout ||
         why == LedgerError::kRefused || why == LedgerError::kCorrupt || why == LedgerError::kOther;
}

// Adds an answer to the metrics.
template <typename Answer>
void count(const Answer&, telemetry::LedgerMetrics&) {}

void count(size_t published, telemetry::LedgerMetrics& metrics) {
  metrics.rows_published.fetch_add(published, std::memory_order_relaxed);
}

template <typename Answer>
requires std::same_as<Answer, LedgerChanges> || std::same_as<Answer, LedgerPage>
void count(const Answer& read, telemetry::LedgerMetrics& metrics) {
  metrics.rows_read.fetch_add(read.news.rows.size(), std::memory_order_relaxed);
  metrics.invalid.fetch_add(read.invalid, std::memory_order_relaxed);
}

}  // namespace

ThreadedLedger::ThreadedLedger(const Clock& clock, Stores stores, ThreadedLedgerOptions options)
    : clock_(clock),
      options_(options),
      breaker_(options.breaker),
      first_probe_pause_(options.breaker.pause) {
  publish_.store = std::move(stores.publishing);
  import_.store = std::move(stores.importing);
  maintenance_.store = std::move(stores.maintenance);
  import_.last_error = "not connected yet";
}

ThreadedLedger::~ThreadedLedger() {
  stop();
}

void ThreadedLedger::start() {
  publish_.executor.start();
  import_.executor.start();
  if (maintenance_.store) maintenance_.executor.start();
  import_.executor.post([this] { tick(); });
}

void ThreadedLedger::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  publish_.executor.stop();
  import_.executor.stop();
  maintenance_.executor.stop();
}

template <typename Answer, typename Run>
void ThreadedLedger::submit(Lane& lane, LedgerCall call, std::function<void(Result<Answer>)> reply,
                            Run run) {
  metrics_.calls.add(call);
  if (stopping_.load(std::memory_order_relaxed)) return reply(rejection(LedgerError::kUnreachable));
  if (!closed_.load(std::memory_order_relaxed)) return reply(rejection(LedgerError::kCircuitOpen));
  if (lane.queued.fetch_add(1, std::memory_order_relaxed) >= options_.max_queued) {
    lane.queued.fetch_sub(1, std::memory_order_relaxed);
    return reply(rejection(LedgerError::kOverload));
  }
  lane.executor.post([this, &lane, call, reply = std::move(reply), run = std::move(run)]() mutable {
    lane.queued.fetch_sub(1, std::memory_order_relaxed);
    // Checked again: the state may have changed while the call was queued.
    if (stopping_.load(std::memory_order_relaxed))
      return reply(rejection(LedgerError::kUnreachable));
    if (!closed_.load(std::memory_order_relaxed))
      return reply(rejection(LedgerError::kCircuitOpen));
    const Instant began = clock_.now();
    Result<Answer> answer = run(*lane.store);
    note(lane, began.mono, answer ? nullptr : &answer.error());
    if (call == LedgerCall::kPublish || call == LedgerCall::kHeartbeat) {
      note_write(lane, answer ? nullptr : &answer.error());
    }
    if (answer) count(*answer, metrics_);
    if constexpr (std::is_same_v<Answer, LedgerChanges>) {
      if (answer) note_time(WallTime(Millis(answer->next.position)), began);
    }
    reply(std::move(answer));
  });
}

void ThreadedLedger::publish(LedgerNews batch, PublishReply reply) {
  submit<size_t>(publish_, LedgerCall::kPublish, std::move(reply),
                 [batch = std::move(batch)](LedgerStore& store) { return store.publish(batch); });
}

void ThreadedLedger::changes_since(LedgerCursor cursor, ChangesReply reply) {
  submit<LedgerChanges>(import_, LedgerCall::kChanges, std::move(reply),
                        [cursor](LedgerStore& store) { return store.changes_since(cursor); });
}

void ThreadedLedger::read_page(LedgerPosition position, PageReply reply) {
  submit<LedgerPage>(
      import_, LedgerCall::kPage, std::move(reply),
      [position = std::move(position)](LedgerStore& store) { return store.read_page(position); });
}

void ThreadedLedger::heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) {
  submit<LedgerFleet>(
      maintenance(), LedgerCall::kHeartbeat, std::move(reply),
      [self = std::move(self), rules](LedgerStore& store) { return store.heartbeat(self, rules); });
}

void ThreadedLedger::clean(size_t most, CleaningReply reply) {
  submit<LedgerCleaning>(maintenance(), LedgerCall::kClean, std::move(reply),
                         [most](LedgerStore& store) { return store.clean(most); });
}

Error ThreadedLedger::rejection(LedgerError why) {
  metrics_.errors.add(why);
  return {.code = ErrorCode::kUnavailable,
          .retry = Retry::kMayHelp,
          .detail = "the ledger was not called: " + std::string(to_string(why)),
          .fix = why == LedgerError::kOverload ? "call it less often"
                                               : "check that it is up and reachable"};
}

void ThreadedLedger::note(Lane& lane, MonoTime began, const Error* error) {
  const MonoTime now = clock_.now().mono;
  const LedgerError why = lane.store->last_error_kind();
  const bool answered = error == nullptr || !trips_breaker(why);
  if (error != nullptr) {
    metrics_.errors.add(why);
  } else {
    metrics_.latency.add(now - began);
  }
  const uint64_t retries = lane.store->retries();
  metrics_.retries.fetch_add(retries - std::exchange(lane.retries, retries),
                             std::memory_order_relaxed);
  const uint64_t connections = lane.store->connections();
  metrics_.connections.fetch_add(connections - std::exchange(lane.connections, connections),
                                 std::memory_order_relaxed);
  if (answered) answered_.store(true, std::memory_order_relaxed);
  metrics_.ready.store(answered, std::memory_order_relaxed);

  const std::lock_guard lock(mutex_);
  breaker_.note(now, answered);
  closed_.store(breaker_.closed(), std::memory_order_relaxed);
  metrics_.closed.store(breaker_.closed(), std::memory_order_relaxed);
  // Bad rows are not a fault of the store.
  if (error == nullptr) {
    lane.last_error.clear();
  } else if (why != LedgerError::kBadRows) {
    lane.last_error = error->detail + "; " + error->fix;
  }
}

void ThreadedLedger::note_write(const Lane& lane, const Error* error) {
  const std::lock_guard lock(mutex_);
  if (error == nullptr) {
    last_write_error_.clear();
  } else if (lane.store->last_error_kind() != LedgerError::kBadRows) {
    last_write_error_ = error->detail + "; " + error->fix;
  }
}

void ThreadedLedger::note_time(WallTime store_time, Instant sent) {
  const Instant now = clock_.now();
  const WallTime middle = sent.wall + (now.wall - sent.wall) / 2;
  metrics_.clock_ahead.store((store_time - middle).count(), std::memory_order_relaxed);
}

// Probes the store before the first answer and while the breaker is open.
void ThreadedLedger::tick() {
  const Instant began = clock_.now();
  bool due = false;
  if (!answered_.load(std::memory_order_relaxed) && began.mono >= first_probe_at_) {
    due = true;
    first_probe_pause_ = std::min(2 * first_probe_pause_, options_.breaker.longest_pause);
  }
  {
    const std::lock_guard lock(mutex_);
    due |= breaker_.probe_due(began.mono);
  }
  if (due && !stopping_.load(std::memory_order_relaxed)) {
    metrics_.calls.add(LedgerCall::kProbe);
    const Result<WallTime> time = import_.store->time();
    if (time) {
      note_time(*time, began);
      const std::lock_guard lock(mutex_);
      breaker_.close();
    }
    note(import_, began.mono, time ? nullptr : &time.error());
    first_probe_at_ = clock_.now().mono + first_probe_pause_;
  }
  import_.executor.post_at(clock_.now().mono + kTick, [this] { tick(); });
}

bool ThreadedLedger::reachable() const {
  return closed_.load(std::memory_order_relaxed) && answered_.load(std::memory_order_relaxed);
}

std::string ThreadedLedger::last_error() const {
  const std::lock_guard lock(mutex_);
  for (const Lane* lane : {&publish_, &maintenance_}) {
    if (!lane->last_error.empty()) return lane->last_error;
  }
  return import_.last_error;
}

std::string ThreadedLedger::last_write_error() const {
  const std::lock_guard lock(mutex_);
  return last_write_error_;
}

std::shared_ptr<ThreadedLedger> make_threaded_ledger(const Clock& clock,
                                                     const MakeStore& make_store, uint64_t seed) {
  if (seed == 0) seed = platform::entropy();
  // Different seeds, so that pauses differ. The seed of `maintenance` names the process in leases.
  return std::make_shared<ThreadedLedger>(clock,
                                          ThreadedLedger::Stores{.publishing = make_store(~seed),
                                                                 .importing = make_store(~seed + 1),
                                                                 .maintenance = make_store(seed)});
}

}  // namespace weir::ledgers
