// Runs the background work of a limiter on threads of its own.
//
//   weir::Runner runner(weir::system_clock(), limiter);
//   runner.start();
//   ...                                   // serve requests
//   const auto report = runner.drain();   // after the last request
//   if (!report.complete()) log("counts were not flushed");

#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "weir/clock.h"
#include "weir/export.h"
#include "weir/limiter.h"
#include "weir/time.h"

namespace weir {

// Intervals below 1 ms are taken as 1 ms. An iteration that is late is not made up for.
struct RunnerOptions {
  // Between two calls of Limiter::run_replay(). Default 10 ms. Longer: other processes see the
  // counts of this one later, beyond Options::replay_within.
  Millis replay_every{10};
  // Between two calls of Limiter::run_sync(). Default 10 ms. Longer: the same for other regions.
  Millis sync_every{10};
  // Between two calls of Limiter::run_sweep(). Default 250 ms.
  Millis sweep_every{250};
  // The time in which the sweep visits the whole table. Default 1 min. Shorter: more CPU time.
  // Longer: expired tuples occupy space for longer.
  Millis sweep_round{60'000};

  // Called after each iteration, on the thread of that work; for logs and metrics. May be empty.
  std::function<void(Instant now)> after_replay = {};
  std::function<void(Instant now)> after_sync = {};
};

// How long each step of drain() may take. The defaults add up to 5 s.
struct DrainDeadlines {
  Millis replay{2000};   // send all counts to the origin
  Millis retire{1000};   // then fold this process's counts at the origin into `departed`
  Millis publish{2000};  // send all counts to the ledger
};

// The work that drain() could not finish.
struct DrainReport {
  size_t not_replayed = 0;   // at least so many cells that the origin did not acknowledge
  size_t not_retired = 0;    // cells whose retirement the origin did not confirm
  size_t not_published = 0;  // rows that the ledger did not accept
  [[nodiscard]] bool complete() const {
    return not_replayed == 0 && not_retired == 0 && not_published == 0;
  }
};

// Starts one thread each for the replay (if the limiter has an origin), the exchange with other
// regions and its heartbeat (if it has a ledger), and the sweep of expired tuples.
//
// One thread at a time. The clock is the clock of the limiter. Both must outlive the runner, and
// the limiter must not be moved meanwhile.
class WEIR_EXPORT Runner {
 public:
  Runner(const Clock& clock, Limiter& limiter, RunnerOptions options = {});
  ~Runner();  // stop()
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // The constructor starts nothing. A second call has no effect.
  void start();

  // Flushes all counts. Call it after the last request; it ends the replay and the exchange. A
  // further call tries again. Before start() it starts the threads first. After stop() it flushes
  // nothing and returns the last report.
  DrainReport drain(DrainDeadlines deadlines = {});

  // Ends all threads. Counts that drain() did not flush stay in memory only.
  void stop();

 private:
  struct Threads;
  const std::unique_ptr<Threads> threads_;
};

}  // namespace weir
