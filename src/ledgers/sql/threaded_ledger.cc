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

// Whether asking less would help. A server that is full or a replica answers at once.
bool trips_breaker(LedgerError why) {
  return why == LedgerError::kUnreachable || why == LedgerError::kTimeout ||
         why == LedgerError::kRefused || why == LedgerError::kCorrupt || why == LedgerError::kOther;
}

// What an answer adds to the counts.
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
  telling_.store = std::move(stores.telling);
  hearing_.store = std::move(stores.hearing);
  keeping_.store = std::move(stores.keeping);
  hearing_.trouble = "not connected yet";
}

ThreadedLedger::~ThreadedLedger() {
  stop();
}

void ThreadedLedger::start() {
  telling_.executor.start();
  hearing_.executor.start();
  if (keeping_.store) keeping_.executor.start();
  hearing_.executor.post([this] { look_after(); });
}

void ThreadedLedger::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  telling_.executor.stop();
  hearing_.executor.stop();
  keeping_.executor.stop();
}

template <typename Answer, typename Ask>
void ThreadedLedger::ask(Lane& lane, LedgerCall call, std::function<void(Result<Answer>)> reply,
                         Ask ask) {
  metrics_.calls.add(call);
  if (stopping_.load(std::memory_order_relaxed)) return reply(refusal(LedgerError::kUnreachable));
  if (!closed_.load(std::memory_order_relaxed)) return reply(refusal(LedgerError::kCircuitOpen));
  if (lane.waiting.fetch_add(1, std::memory_order_relaxed) >= options_.most_waiting) {
    lane.waiting.fetch_sub(1, std::memory_order_relaxed);
    return reply(refusal(LedgerError::kOverload));
  }
  lane.executor.post([this, &lane, call, reply = std::move(reply), ask = std::move(ask)]() mutable {
    lane.waiting.fetch_sub(1, std::memory_order_relaxed);
    // Things may have changed while it waited.
    if (stopping_.load(std::memory_order_relaxed)) return reply(refusal(LedgerError::kUnreachable));
    if (!closed_.load(std::memory_order_relaxed)) return reply(refusal(LedgerError::kCircuitOpen));
    const Instant began = clock_.now();
    Result<Answer> answer = ask(*lane.store);
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

void ThreadedLedger::publish(LedgerNews news, PublishReply reply) {
  ask<size_t>(telling_, LedgerCall::kPublish, std::move(reply),
              [news = std::move(news)](LedgerStore& store) { return store.publish(news); });
}

void ThreadedLedger::changes_since(LedgerCursor cursor, ChangesReply reply) {
  ask<LedgerChanges>(hearing_, LedgerCall::kChanges, std::move(reply),
                     [cursor](LedgerStore& store) { return store.changes_since(cursor); });
}

void ThreadedLedger::read_page(LedgerPosition place, PageReply reply) {
  ask<LedgerPage>(
      hearing_, LedgerCall::kPage, std::move(reply),
      [place = std::move(place)](LedgerStore& store) { return store.read_page(place); });
}

void ThreadedLedger::heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) {
  ask<LedgerFleet>(
      keeping(), LedgerCall::kHeartbeat, std::move(reply),
      [self = std::move(self), rules](LedgerStore& store) { return store.heartbeat(self, rules); });
}

void ThreadedLedger::clean(size_t most, CleaningReply reply) {
  ask<LedgerCleaning>(keeping(), LedgerCall::kClean, std::move(reply),
                      [most](LedgerStore& store) { return store.clean(most); });
}

Error ThreadedLedger::refusal(LedgerError why) {
  metrics_.errors.add(why);
  return {.code = ErrorCode::kUnavailable,
          .retry = Retry::kMayHelp,
          .detail = "the ledger was not asked: " + std::string(to_string(why)),
          .fix = why == LedgerError::kOverload ? "ask less often"
                                               : "see whether it is up and can be reached"};
}

void ThreadedLedger::note(Lane& lane, MonoTime began, const Error* error) {
  const MonoTime now = clock_.now().mono;
  const LedgerError why = lane.store->why();
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
  // Rows that do not fit say nothing about the store.
  if (error == nullptr) {
    lane.trouble.clear();
  } else if (why != LedgerError::kBadRows) {
    lane.trouble = error->detail + "; " + error->fix;
  }
}

void ThreadedLedger::note_write(const Lane& lane, const Error* error) {
  const std::lock_guard lock(mutex_);
  if (error == nullptr) {
    write_trouble_.clear();
  } else if (lane.store->why() != LedgerError::kBadRows) {
    write_trouble_ = error->detail + "; " + error->fix;
  }
}

void ThreadedLedger::note_time(WallTime theirs, Instant sent) {
  const Instant now = clock_.now();
  const WallTime middle = sent.wall + (now.wall - sent.wall) / 2;
  metrics_.clock_ahead.store((theirs - middle).count(), std::memory_order_relaxed);
}

// Probes while the breaker is open, and until there was an answer at all.
void ThreadedLedger::look_after() {
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
    const Result<WallTime> time = hearing_.store->time();
    if (time) {
      note_time(*time, began);
      const std::lock_guard lock(mutex_);
      breaker_.close();
    }
    note(hearing_, began.mono, time ? nullptr : &time.error());
    first_probe_at_ = clock_.now().mono + first_probe_pause_;
  }
  hearing_.executor.post_at(clock_.now().mono + kTick, [this] { look_after(); });
}

bool ThreadedLedger::reachable() const {
  return closed_.load(std::memory_order_relaxed) && answered_.load(std::memory_order_relaxed);
}

std::string ThreadedLedger::trouble() const {
  const std::lock_guard lock(mutex_);
  for (const Lane* lane : {&telling_, &keeping_}) {
    if (!lane->trouble.empty()) return lane->trouble;
  }
  return hearing_.trouble;
}

std::string ThreadedLedger::write_trouble() const {
  const std::lock_guard lock(mutex_);
  return write_trouble_;
}

std::shared_ptr<ThreadedLedger> make_threaded_ledger(const Clock& clock,
                                                     const MakeStore& make_store, uint64_t seed) {
  if (seed == 0) seed = platform::entropy();
  // Different pauses for each; the process cleans under the name of the third.
  return std::make_shared<ThreadedLedger>(clock,
                                          ThreadedLedger::Stores{.telling = make_store(~seed),
                                                                 .hearing = make_store(~seed + 1),
                                                                 .keeping = make_store(seed)});
}

}  // namespace weir::ledgers
