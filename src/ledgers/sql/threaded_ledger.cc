#include "ledgers/sql/threaded_ledger.h"

#include <algorithm>
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

void count(const FeedChanges& read, telemetry::LedgerMetrics& metrics) {
  size_t rows = 0;
  for (const FeedBatch& batch : read.batches) rows += batch.rows.size();
  metrics.rows_read.fetch_add(rows, std::memory_order_relaxed);
  metrics.invalid.fetch_add(read.invalid, std::memory_order_relaxed);
}

void count(const LedgerPage& read, telemetry::LedgerMetrics& metrics) {
  metrics.rows_read.fetch_add(read.rows.size(), std::memory_order_relaxed);
  metrics.invalid.fetch_add(read.invalid, std::memory_order_relaxed);
}

}  // namespace

ThreadedLedger::ThreadedLedger(const Clock& clock, Stores stores, ThreadedLedgerOptions options)
    : clock_(clock),
      options_(options),
      breaker_(options.breaker),
      probe_pause_(options.breaker.pause) {
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
  used_.store(true, std::memory_order_relaxed);
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
    reply(std::move(answer));
  });
}

void ThreadedLedger::publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
                             PublishReply reply) {
  submit<FeedPosition>(
      publish_, LedgerCall::kPublish, std::move(reply),
      [this, region = std::move(region), known, rows = std::move(rows)](LedgerStore& store) {
        auto at = store.publish(region, known, rows);
        if (at) metrics_.rows_published.fetch_add(rows.size(), std::memory_order_relaxed);
        return at;
      });
}

void ThreadedLedger::read_feeds(std::vector<RegionFeed> after, FeedReply reply) {
  submit<FeedChanges>(
      import_, LedgerCall::kFeeds, std::move(reply),
      [after = std::move(after)](LedgerStore& store) { return store.read_feeds(after); });
}

void ThreadedLedger::read_page(std::string region, LedgerPosition position, PageReply reply) {
  submit<LedgerPage>(import_, LedgerCall::kPage, std::move(reply),
                     [region = std::move(region), position = std::move(position)](
                         LedgerStore& store) { return store.read_page(region, position); });
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

  const base::MutexLock lock(mutex_);
  breaker_.record(now, answered);
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
  const base::MutexLock lock(mutex_);
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

// Reads the time of the store: as a probe before the first answer, after a failed call and while
// the breaker is open, and to compare the clocks, as long as there are other calls. A process that
// is not the bridge of its region has none, and asks nothing; but if its last call failed, no other
// call would find out that the store is back, and too few failed to open the breaker.
void ThreadedLedger::tick() {
  const Instant began = clock_.now();
  bool due = false;
  if (metrics_.ready.load(std::memory_order_relaxed)) {
    probe_pause_ = options_.breaker.pause;
    probe_at_ = began.mono + probe_pause_;
  } else if (closed_.load(std::memory_order_relaxed) && began.mono >= probe_at_) {
    due = true;
    probe_pause_ = std::min(2 * probe_pause_, options_.breaker.longest_pause);
  }
  {
    const base::MutexLock lock(mutex_);
    due |= breaker_.probe_due(began.mono);
  }
  if (reachable() && began.mono >= next_comparison_) {
    due |= used_.exchange(false, std::memory_order_relaxed);
  }
  if (due && !stopping_.load(std::memory_order_relaxed)) {
    metrics_.calls.add(LedgerCall::kProbe);
    const Result<WallTime> time = import_.store->time();
    if (time) {
      note_time(*time, began);
      const base::MutexLock lock(mutex_);
      breaker_.close();
    }
    note(import_, began.mono, time ? nullptr : &time.error());
    probe_at_ = clock_.now().mono + probe_pause_;
    next_comparison_ = clock_.now().mono + options_.clock_pause;
  }
  import_.executor.post_at(clock_.now().mono + kTick, [this] { tick(); });
}

bool ThreadedLedger::reachable() const {
  return closed_.load(std::memory_order_relaxed) && answered_.load(std::memory_order_relaxed);
}

std::string ThreadedLedger::last_error() const {
  const base::MutexLock lock(mutex_);
  for (const Lane* lane : {&publish_, &maintenance_}) {
    if (!lane->last_error.empty()) return lane->last_error;
  }
  return import_.last_error;
}

std::string ThreadedLedger::last_write_error() const {
  const base::MutexLock lock(mutex_);
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
