// The port to a store that makes its callers wait: it is this class's threads that wait.
//
// Three of them, each with a connection: one tells, one hears, one says that this process lives and
// deletes what has expired, so that none keeps another from its work. Calls wait in short queues;
// where these are full, or most calls fail, the answer is an error at once. Whether the store is
// back is found out in the background.
//
// Safe from any thread but where noted; replies come on its threads, or before the call
// returns if it is refused.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/breaker.h"
#include "ledgers/sql/ledger_store.h"
#include "platform/thread_executor.h"
#include "telemetry/ledger_metrics.h"
#include "weir/clock.h"
#include "weir/ledger.h"

namespace weir::ledgers {

struct ThreadedLedgerOptions {
  // Calls that wait on each thread. Few: who waits for long has given
  // up when it is his turn.
  size_t most_waiting = 32;
  // Opens soon, since a call that fails may take seconds to do so.
  base::BreakerOptions breaker = {.window = std::chrono::seconds(10),
                                  .least = 3,
                                  .percent = 50,
                                  .pause = std::chrono::milliseconds(500),
                                  .longest_pause = std::chrono::seconds(8)};
};

class ThreadedLedger final : public GlobalLedger {
 public:
  // The same store, with a connection for each: to tell it, to hear it, to attend and to clean.
  struct Stores {
    std::unique_ptr<LedgerStore> telling;
    std::unique_ptr<LedgerStore> hearing;
    std::unique_ptr<LedgerStore> keeping = nullptr;  // none: the one that hears does it
  };
  ThreadedLedger(const Clock& clock, Stores stores, ThreadedLedgerOptions options = {});
  ~ThreadedLedger() override;

  // Once each, in this order. stop() answers those who wait with an error, and waits for the
  // call that is under way.
  void start();
  void stop();

  void publish(LedgerNews news, PublishReply reply) override;
  void changes_since(LedgerCursor cursor, ChangesReply reply) override;
  void read_page(LedgerPosition place, PageReply reply) override;
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override;
  void clean(size_t most, CleaningReply reply) override;

  // From the first answer on, but not while most calls fail.
  [[nodiscard]] bool reachable() const override;

  [[nodiscard]] const telemetry::LedgerMetrics& metrics() const { return metrics_; }
  // Why the last call failed, in words; empty if it did not.
  [[nodiscard]] std::string trouble() const;
  // Why the last write failed; empty if it did not.
  [[nodiscard]] std::string write_trouble() const;

 private:
  struct Lane {
    // On its thread.
    std::unique_ptr<LedgerStore> store;
    uint64_t retries = 0;  // that the metrics know of
    uint64_t connections = 0;

    std::atomic<size_t> waiting{0};  // a number alone: relaxed
    std::string trouble;             // guarded by mutex_
    platform::ThreadExecutor executor;
  };

  template <typename Answer, typename Ask>
  void ask(Lane& lane, telemetry::LedgerCall call, std::function<void(Result<Answer>)> reply,
           Ask ask);
  [[nodiscard]] Error refusal(telemetry::LedgerError why);
  void note(Lane& lane, MonoTime began, const Error* error);
  void note_write(const Lane& lane, const Error* error);
  void note_time(WallTime theirs, Instant sent);
  void look_after();
  [[nodiscard]] Lane& keeping() { return keeping_.store ? keeping_ : hearing_; }

  const Clock& clock_;
  const ThreadedLedgerOptions options_;
  telemetry::LedgerMetrics metrics_;

  mutable std::mutex mutex_;
  base::Breaker breaker_;              // guarded by mutex_
  std::string write_trouble_;          // guarded by mutex_
  MonoTime first_probe_at_{};          // on the thread that hears
  Nanos first_probe_pause_;            // on the thread that hears
  std::atomic<bool> closed_{true};     // as the breaker is; a hint: relaxed
  std::atomic<bool> answered_{false};  // ever; relaxed
  std::atomic<bool> stopping_{false};  // relaxed: a call that misses it is carried out

  // Last, so that their threads end before what they use.
  Lane telling_, hearing_, keeping_;
};

// Makes one connection to the store; `seed` is that of StoreOptions.
using MakeStore = std::function<std::unique_ptr<LedgerStore>(uint64_t seed)>;

// Not started. `seed` names this process among those that share the ledger; 0: random.
[[nodiscard]] std::shared_ptr<ThreadedLedger> make_threaded_ledger(const Clock& clock,
                                                                   const MakeStore& make_store,
                                                                   uint64_t seed);

}  // namespace weir::ledgers
