// A GlobalLedger on top of blocking stores.
//
// It has three threads, each with its own connection: one publishes, one imports, and one sends
// heartbeats and deletes expired rows. So a slow call of one kind does not delay the others. Calls
// wait in short queues. If a queue is full, or most calls fail, a call fails at once; a probe in
// the background finds out when the store is back.
//
// Safe from any thread unless noted. Replies come on the threads of the ledger, or before the call
// returns if it is rejected.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/breaker.h"
#include "base/mutex.h"
#include "ledgers/sql/ledger_store.h"
#include "platform/thread_executor.h"
#include "telemetry/ledger_metrics.h"
#include "weir/clock.h"
#include "weir/ledger.h"

namespace weir::ledgers {

struct ThreadedLedgerOptions {
  // Queued calls per thread. Few: after a long wait the caller has given up.
  size_t max_queued = 32;
  // Opens after few failures, since a call may take seconds to fail. Regions exchange no counts
  // until a probe has found that the store is back: the longest pause adds to each outage.
  base::BreakerOptions breaker = {.window = std::chrono::seconds(10),
                                  .least = 3,
                                  .percent = 50,
                                  .pause = std::chrono::milliseconds(500),
                                  .longest_pause = std::chrono::seconds(2)};
  // How often the clock of the store is compared with ours.
  Nanos clock_pause = std::chrono::seconds(10);
};

class ThreadedLedger final : public GlobalLedger {
 public:
  // Connections to the same store: three, or two without `maintenance`.
  struct Stores {
    std::unique_ptr<LedgerStore> publishing;
    std::unique_ptr<LedgerStore> importing;
    std::unique_ptr<LedgerStore> maintenance = nullptr;  // null: `importing` does its work, too
  };
  ThreadedLedger(const Clock& clock, Stores stores, ThreadedLedgerOptions options = {});
  ~ThreadedLedger() override;

  // Once each, in this order. stop() fails the queued calls and waits for the calls in flight.
  void start();
  void stop();

  void publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
               PublishReply reply) override;
  void read_feeds(std::vector<RegionFeed> after, FeedReply reply) override;
  void read_page(std::string region, LedgerPosition position, PageReply reply) override;
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override;
  void clean(size_t most, CleaningReply reply) override;

  // False before the first answer, and while most calls fail.
  [[nodiscard]] bool reachable() const override;

  [[nodiscard]] const telemetry::LedgerMetrics& metrics() const { return metrics_; }
  // Why the last call failed; empty if it succeeded.
  [[nodiscard]] std::string last_error() const;
  // Why the last write failed; empty if it succeeded.
  [[nodiscard]] std::string last_write_error() const;

 private:
  struct Lane {
    // On its thread.
    std::unique_ptr<LedgerStore> store;
    uint64_t retries = 0;  // already in the metrics, as are these
    uint64_t connections = 0;

    std::atomic<size_t> queued{0};  // independent value: relaxed
    std::string last_error;         // guarded by mutex_
    platform::ThreadExecutor executor;
  };

  template <typename Answer, typename Run>
  void submit(Lane& lane, telemetry::LedgerCall call, std::function<void(Result<Answer>)> reply,
              Run run);
  [[nodiscard]] Error rejection(telemetry::LedgerError why);
  void note(Lane& lane, MonoTime began, const Error* error);
  void note_write(const Lane& lane, const Error* error);
  void note_time(WallTime store_time, Instant sent);
  void tick();
  [[nodiscard]] Lane& maintenance() { return maintenance_.store ? maintenance_ : import_; }

  const Clock& clock_;
  const ThreadedLedgerOptions options_;
  telemetry::LedgerMetrics metrics_;

  mutable base::StdMutex mutex_;
  base::Breaker breaker_;              // guarded by mutex_
  std::string last_write_error_;       // guarded by mutex_
  MonoTime probe_at_{};                // while the last call failed; on the import thread
  Nanos probe_pause_;                  // on the import thread
  MonoTime next_comparison_{};         // of the clocks; on the import thread
  std::atomic<bool> used_{true};       // by a call since the last comparison; relaxed
  std::atomic<bool> closed_{true};     // copy of the breaker's state, a hint: relaxed
  std::atomic<bool> answered_{false};  // at least once; relaxed
  std::atomic<bool> stopping_{false};  // relaxed: a call that misses it runs

  // Last, so that the threads end before the members that they use.
  Lane publish_, import_, maintenance_;
};

// Makes one connection to the store; `seed` is that of StoreOptions.
using MakeStore = std::function<std::unique_ptr<LedgerStore>(uint64_t seed)>;

// Not started. `seed` names this process among those that share the ledger; 0: random.
[[nodiscard]] std::shared_ptr<ThreadedLedger> make_threaded_ledger(const Clock& clock,
                                                                   const MakeStore& make_store,
                                                                   uint64_t seed);

}  // namespace weir::ledgers
