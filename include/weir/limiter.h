// The limiter: decides requests in memory, and reads the regional origin where it must.
//
//   auto limiter = weir::Limiter::create(weir::system_clock());
//   if (!limiter) return fail(limiter.error().detail);
//   auto verdict = limiter->check({.ns = "api", .identifier = "alice",
//                                  .limit = 100, .duration = std::chrono::seconds(60)});
//   if (verdict && verdict->admitted()) serve();
//
// Four ways to ask, and three things to ask for. The verdicts are the same, but the second row
// decides without the origin, whatever the consistency:
//
//                                  one request      many, independent   all or nothing
//   wait for the origin            check            check_each          check_all
//   never wait: memory only        check_local      check_each_local    check_all_local
//   call a handler                 check_async      check_each_async    check_all_async
//   co_await                       co_check         co_check_each       co_check_all
//
// Without an origin in the options nothing ever waits, and the first two rows are the same.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/awaitable.h"
#include "weir/clock.h"
#include "weir/error.h"
#include "weir/executor.h"
#include "weir/export.h"
#include "weir/options.h"
#include "weir/request.h"
#include "weir/stats.h"
#include "weir/unique_function.h"
#include "weir/verdict.h"

namespace weir {

namespace decide {
class Engine;
}

// The result of a batch: admitted as a whole or not at all. `items` are in the order of the
// requests. In a denied batch, an item that would pass alone is kAdmitted and reports its
// remaining capacity.
struct BatchVerdict {
  Outcome outcome = Outcome::kDenied;
  std::vector<Verdict> items{};
  [[nodiscard]] bool admitted() const { return outcome == Outcome::kAdmitted; }
};

using VerdictHandler = UniqueFunction<void(Result<Verdict>)>;
using BatchHandler = UniqueFunction<void(Result<BatchVerdict>)>;

// When an asynchronous call completed, or will complete.
enum class Completion : uint8_t {
  kImmediate,  // the handler was called before the call returned
  kPending,    // the handler will be called on the executor
};

// Which counts run_replay() and run_sync() write: those that are due, or all, at shutdown.
enum class Flush : uint8_t { kDue, kAll };

// Result of one pass of background work.
struct WorkReport {
  size_t done = 0;     // cells sent to the origin, or tuples swept; 0 for run_sync()
  size_t waiting = 0;  // cells that are not due yet or could not be sent; rows for run_sync()
};

// Which tuples save() writes: those that changed since the last save, or all.
enum class Saving : uint8_t { kChanged, kAll };

struct SaveReport {
  size_t saved = 0;    // records written
  bool stale = false;  // nothing was written: a tuple was reset, so a save with kAll is required
};

// Thread safety: all calls are safe from any thread at the same time, except the move operations
// and the destructor, which must be the only call. Where a comment says "calls are serialised",
// concurrent calls wait for each other; requests never wait for them.
//
// The clock must outlive the limiter. An executor must live until the handlers of its calls were
// called. A moved-from limiter can only be destroyed or assigned to.
//
// create() starts no thread. Runner (weir/runner.h) calls run_replay(), run_sync() and run_sweep()
// from threads of its own. Without a Runner, call run_replay() and run_sync() every 10 ms, and
// run_sweep(now, capacity() / 240 + 1) every 250 ms.
class WEIR_EXPORT Limiter {
 public:
  // An error if an option is outside of its range; see error_in().
  static Result<Limiter> create(const Clock& clock, Options options = {});
  static Result<Limiter> create(const Clock&& clock, Options options = {}) = delete;
  ~Limiter();
  Limiter(Limiter&&) noexcept;
  Limiter& operator=(Limiter&&) noexcept;

  // --- wait for the origin ---
  //
  // If the origin must be asked, these block the calling thread until it answers, at most for
  // Options::read_deadline, however many answers a request needs (docs/origin.md). After the
  // deadline they decide on the counts in memory, and the verdict's basis is kDegraded. Do not call
  // them on the thread of an event loop, nor on a thread that delivers replies of the origin.
  //
  // `now` is a reading of the limiter's clock, for callers that have one already.
  Result<Verdict> check(const Request& request);
  Result<Verdict> check(Instant now, const Request& request);

  // Decides independent requests, faster than one by one. `verdicts` must be as long as
  // `requests`. Otherwise nothing is decided, and each verdict is an Error with both sizes.
  void check_each(Instant now, std::span<const Request> requests,
                  std::span<Result<Verdict>> verdicts);

  // All or nothing over 1 to kMaxBatch requests: if one is denied, nothing is consumed. Except: the
  // origin decides several items, and another process uses up one of them meanwhile. Then what the
  // origin has granted to the others stays counted there. An error names the item.
  Result<BatchVerdict> check_all(std::span<const Request> requests);
  Result<BatchVerdict> check_all(Instant now, std::span<const Request> requests);

  // --- never wait ---
  //
  // Decide at once on the counts in memory: every request is relaxed. A request for a tuple in
  // memory takes no lock and allocates nothing. Where the origin should have been read first, the
  // verdict's basis is kDegraded. While the origin is lost, Options::on_origin_loss applies.
  Result<Verdict> check_local(const Request& request);
  Result<Verdict> check_local(Instant now, const Request& request);
  void check_each_local(Instant now, std::span<const Request> requests,
                        std::span<Result<Verdict>> verdicts);
  Result<BatchVerdict> check_all_local(std::span<const Request> requests);
  Result<BatchVerdict> check_all_local(Instant now, std::span<const Request> requests);

  // --- call a handler ---
  //
  // The handler is called exactly once: before the call returns if nothing must be read, otherwise
  // on `home`. The return value says which. The requests need not outlive the call;
  // check_each_async() writes to `verdicts` until its handler is called.
  Completion check_async(Instant now, const Request& request, Executor& home,
                         VerdictHandler handler);
  Completion check_each_async(Instant now, std::span<const Request> requests,
                              std::span<Result<Verdict>> verdicts, Executor& home, Task handler);
  Completion check_all_async(Instant now, std::span<const Request> requests, Executor& home,
                             BatchHandler handler);

  // --- co_await ---
  //
  //   const auto verdict = co_await limiter.co_check(clock.now(), request, home);
  //
  // The coroutine continues at once if nothing must be read, otherwise it resumes on `home`.
  // The requests must live until co_await begins. co_check_each() gives `verdicts`.
  [[nodiscard]] auto co_check(Instant now, const Request& request, Executor& home) {
    return make_awaitable<Result<Verdict>>([this, now, request, &home](VerdictHandler handler) {
      check_async(now, request, home, std::move(handler));
    });
  }
  [[nodiscard]] auto co_check_each(Instant now, std::span<const Request> requests,
                                   std::span<Result<Verdict>> verdicts, Executor& home) {
    return make_awaitable<std::span<Result<Verdict>>>(
        [this, now, requests, verdicts,
         &home](UniqueFunction<void(std::span<Result<Verdict>>)> handler) {
          check_each_async(now, requests, verdicts, home,
                           [verdicts, handler = std::move(handler)] { handler(verdicts); });
        });
  }
  [[nodiscard]] auto co_check_all(Instant now, std::span<const Request> requests, Executor& home) {
    return make_awaitable<Result<BatchVerdict>>([this, now, requests, &home](BatchHandler handler) {
      check_all_async(now, requests, home, std::move(handler));
    });
  }

  // True if a decision may require a read of the origin: the options have one.
  [[nodiscard]] bool may_wait() const { return waits_; }
  // True if counts are exchanged with other regions: the options have a ledger.
  [[nodiscard]] bool has_ledger() const { return has_ledger_; }

  // Clears the count of a tuple in this process. Only the names, the duration and the algorithm
  // of the request matter. True: there was a count. An Error with kShared for fixed_window and
  // sliding_window with an origin or a ledger, whose counters only grow, for what an origin keeps,
  // and for what other regions count, too; an Error also if the table is full and the tuple is
  // counted together with others.
  Result<bool> reset(Instant now, const Request& request);

  // The consistency of requests that do not set one.
  void set_consistency(Consistency consistency);
  // The policy for requests that do not set one, while the origin is lost.
  void set_on_origin_loss(OnOriginLoss policy);

  // --- background work ---

  // Sends counts to the origin. `timers` runs the deadline of each reply. Calls are serialised.
  WorkReport run_replay(Instant now, Executor& timers, Flush flush = Flush::kDue);

  // At shutdown, after the last request and after all counts were sent: folds this process's
  // counts at the origin into the shared `departed` component. A further call reports the number
  // of cells that are not confirmed yet. Calls are serialised.
  WorkReport run_shutdown(Instant now);

  // With a ledger: publishes counts to other regions, imports theirs, and sends the heartbeat of
  // this region. Calls are serialised.
  WorkReport run_sync(Instant now, Flush flush = Flush::kDue);

  // Removes expired tuples among the next `slots` slots of the table.
  WorkReport run_sweep(Instant now, size_t slots);

  // --- state ---

  [[nodiscard]] LimiterStats stats() const;
  [[nodiscard]] SyncStats sync_stats() const;
  [[nodiscard]] size_t capacity() const { return capacity_; }  // tuples; see Options::capacity

  // Persists counts across a restart: passes one record per tuple of gcra, token_bucket,
  // sliding_window_strict and sliding_log to `write`. For a limiter without an origin, and for
  // relaxed requests: the state of all others is at the origin, and this process has a copy, which
  // it uses while the origin is lost. A later record of a tuple replaces the earlier ones. Counts
  // in the sketch are not saved. Calls are serialised.
  SaveReport save(Instant now, Saving saving, const std::function<void(std::string_view)>& write);
  // Imports a record, before the first request. A tuple in memory then counts at least as much as
  // the record. False: this is not a valid record.
  bool restore(Instant now, std::string_view record);

 private:
  Limiter(const Clock& clock, const Options& options);
  Result<Verdict> check_and_wait(Instant now, const Request& request);

  // Fixed after construction.
  const Clock* clock_;
  std::shared_ptr<decide::Engine> engine_;
  size_t capacity_;
  Millis read_deadline_;
  bool waits_;
  bool has_ledger_;
};

}  // namespace weir
