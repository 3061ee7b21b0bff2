// The limiter: ask it, and it answers from memory.
//
//   weir::Limiter limiter(weir::system_clock());
//   auto verdict = limiter.check({.name_space = "api", .identifier = "alice",
//                                 .limit = 100, .duration = std::chrono::seconds(60)});
//   if (verdict && verdict->admitted()) serve();

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weir/clock.h"
#include "weir/error.h"
#include "weir/executor.h"
#include "weir/options.h"
#include "weir/request.h"
#include "weir/verdict.h"

namespace weir {

namespace decide {
class Engine;
}

// The answer to a batch: admitted whole or not at all. `items` are in the order
// asked; when the batch was refused, an item that would have passed alone says so and
// reports what it still has.
struct BatchVerdict {
  Outcome outcome = Outcome::kDenied;
  std::vector<Verdict> items{};
  [[nodiscard]] bool admitted() const { return outcome == Outcome::kAdmitted; }
};

// What run_replay() tells: what is due, or everything there is, at the end of a process.
enum class Flush : uint8_t { kDue, kAll };

// What one pass of background work did.
struct WorkReport {
  size_t done = 0;     // cells told to the origin, or tuples swept
  size_t waiting = 0;  // cells whose turn has not come, or that were told in vain
};

// What save() writes: tuples that changed since they were last saved, or all.
enum class Saving : uint8_t { kChanged, kAll };

struct SaveReport {
  size_t saved = 0;    // records written
  bool stale = false;  // nothing was: a tuple was reset, and what was saved must be replaced by all
};

// Reads of the origin before a decision, of one kind.
struct ReadStats {
  uint64_t asked = 0;
  uint64_t failed = 0;  // of those, or too late
};

// Bytes held now, by what for, and how many may be held.
struct MemoryStats {
  uint64_t limit = 0;
  uint64_t table = 0;    // slots, and lists of them
  uint64_t annexes = 0;  // rings and logs
  uint64_t keys = 0;     // names of more than 56 bytes
  uint64_t sketch = 0;
  uint64_t regions = 0;  // what other regions count

  [[nodiscard]] uint64_t used() const { return table + annexes + keys + sketch + regions; }
};

// A few totals since the start; for metrics.
struct LimiterStats {
  uint64_t admitted = 0;
  uint64_t denied = 0;
  uint64_t degraded = 0;     // of those, decided on less than should be known
  uint64_t tuples = 0;       // held in memory now
  uint64_t evicted = 0;      // forgotten to make room, their counts safe elsewhere
  uint64_t expired = 0;      // forgotten because they could matter no more
  uint64_t sketched = 0;     // decisions taken in the sketch because there was no room
  uint64_t no_memory = 0;    // of those, because `memory` was used up, not the table; beside them,
                             // decisions of logs that could not grow to the limit asked
  ReadStats cold{};          // tuples read because nothing was known of them
  ReadStats stale{};         // because what was known was too old
  ReadStats strict{};        // because they were denied a short while ago
  uint64_t unread = 0;       // decisions taken without the read they needed
  uint64_t made_strict = 0;  // tuples that began to be read before each admission
  uint64_t replayed = 0;     // cells told to the origin and acknowledged
  uint64_t replay_errors = 0;  // messages that failed; what they told is told again
  uint64_t late_replays = 0;   // cells that expired before they could be told
  uint64_t healed = 0;         // cells of which the origin had forgotten a part
  uint64_t unacked = 0;        // tuples with something to tell now
  Nanos replay_lag{0};         // how long the first of them has been waiting
  uint64_t rebuilt = 0;        // tuples given a new state: another rate, a clock set back
  uint64_t memory_bytes = 0;   // reserved by the table alone
  MemoryStats memory{};
};

// What passes between this region and the others; for metrics.
struct SyncStats {
  // Rows written, by what they were written for.
  uint64_t presence = 0;
  uint64_t contended = 0;
  uint64_t exhaustion = 0;
  uint64_t roll_over = 0;
  uint64_t publish_errors = 0;  // messages that failed; what they told is told again
  uint64_t dropped = 0;         // rows that the ledger will not take
  uint64_t left_out = 0;        // rows that could not even wait: the queue or the memory was full
  uint64_t waiting = 0;         // rows to be written now
  Nanos publish_lag{0};         // how long the first of them has been waiting
  uint64_t imported = 0;        // rows and presences read
  uint64_t import_errors = 0;
  uint64_t last_import = 0;     // rows in the last answer
  uint64_t invalid = 0;         // rows that made no sense, and were ignored
  uint64_t keys = 0;            // tuples known to the ledger now
  uint64_t keys_received = 0;   // of those, without traffic here
  uint64_t received_total = 0;  // such ever
  uint64_t no_room = 0;         // news of tuples for which there was no room
  uint64_t lost = 0;            // rows that the ledger had and lost; written again
  Nanos import_lag{0};          // since the last answer was asked for
  Nanos write_lag{0};      // since the ledger last accepted what this process wrote; 0: it does
  Nanos full_read_age{0};  // since everything was last read
  Nanos full_read_took{0};
  uint64_t full_reads = 0;
  uint64_t deleted = 0;    // expired rows, by this process
  uint32_t regions = 0;    // in the ledger; 0: not known yet
  double budget_used = 0;  // 0 to 1
  double bound = 0;        // of a limit, how much of it may be admitted, beside what is under way
  bool rules_differ = false;  // the ledger's rules are not those of this process
  bool ready = false;         // everything was read once
};

// Safe from any thread. The clock must outlive the limiter, and so must every
// executor handed to it while a request is under way. The constructor starts nothing:
// with a shared origin, call run_replay() every 10 ms or so from any thread.
class Limiter {
 public:
  explicit Limiter(const Clock& clock, Options options = {});
  ~Limiter();
  Limiter(Limiter&&) noexcept;
  Limiter& operator=(Limiter&&) noexcept;

  // Decides at once on what this process knows. Takes no lock and allocates nothing
  // for a tuple it has seen. A time handed in is a reading of the limiter's clock, so
  // that a thread that read it long ago can be told from a clock set back. Where the origin should
  // have been asked first, the verdict's basis is kDegraded.
  Result<Verdict> check(const Request& request);
  Result<Verdict> check(Instant now, const Request& request);

  // The same for many requests that have nothing to do with each other, faster than
  // one by one. `verdicts` must be as long as `requests`: if it is shorter or longer, nothing is
  // decided, and every verdict in it is an Error that names both sizes.
  void check_each(Instant now, std::span<const Request> requests,
                  std::span<Result<Verdict>> verdicts);

  // As check_each(), but what needs it waits for the origin. True: all are decided, or none since
  // the sizes differ; `done` is not called. False: `done` is called on `home` when they are; until
  // then the verdicts must stay, the requests need not.
  [[nodiscard]] bool check_each_async(Instant now, std::span<const Request> requests,
                                      std::span<Result<Verdict>> verdicts, Executor& home,
                                      std::function<void()> done);

  // All or nothing over 1 to kMaxBatch requests: if one is refused, nothing is
  // consumed. An error names the item.
  Result<BatchVerdict> check_all(std::span<const Request> requests);
  Result<BatchVerdict> check_all(Instant now, std::span<const Request> requests);

  // As check() and check_all(), but where the origin must be read first the answer
  // comes later, on `home`. Where nothing must be read, `done` is called before this
  // returns. The request's views need not outlive the call.
  void check_async(Instant now, const Request& request, Executor& home,
                   std::function<void(Result<Verdict>)> done);
  void check_all_async(Instant now, std::span<const Request> requests, Executor& home,
                       std::function<void(Result<BatchVerdict>)> done);

  // Forgets what a tuple has counted, in this process: its next request finds it empty. Of the
  // request only the names, the duration and the algorithm matter. True: there was something to
  // forget. For algorithms that each process counts by itself. fixed_window and sliding_window are
  // told to the origin and the ledger, where counts only grow: an Error if there is one of them. An
  // Error also where the table is full and the tuple is counted together with others.
  Result<bool> reset(Instant now, const Request& request);

  // Whether an origin may have to be read before a decision, which only the *_async calls do.
  [[nodiscard]] bool may_wait() const;

  // Tells the origin what is due. `timers` is used for the reply's deadline. From any thread; calls
  // of several threads take turns.
  WorkReport run_replay(Instant now, Executor& timers, Flush flush = Flush::kDue);

  // Once no request comes any more and all is told: gives this process's part of the counts at
  // the origin to those who stay. Called again, it says how much of that was not confirmed yet.
  WorkReport run_shutdown(Instant now);

  // With a ledger: tells other regions what is due, and hears of them. From any thread; calls of
  // several threads take turns.
  // Tell::kAll, at the end of a process, writes all that is not written yet.
  WorkReport run_sync(Instant now, Flush flush = Flush::kDue);
  [[nodiscard]] SyncStats sync_stats() const;

  // Forgets expired tuples among the next `slots` of the table.
  WorkReport run_sweep(Instant now, size_t slots);

  [[nodiscard]] LimiterStats stats() const;

  // For a process that wants its counts to survive it: writes a record for each tuple of gcra,
  // token_bucket, sliding_window_strict and sliding_log, which no origin and no ledger knows. A
  // later record of a tuple replaces the earlier ones. Calls of several threads take turns;
  // requests do not wait for it. What is counted in the sketch is not saved.
  SaveReport save(Instant now, Saving saving, const std::function<void(std::string_view)>& write);
  // Takes in a record, before the first request; a tuple that is there already then has no less
  // than the record says. False: it is no record.
  bool restore(Instant now, std::string_view record);

  // What holds from here on while the origin is lost, where a request does not say.
  void set_on_origin_loss(OnOriginLoss policy);

 private:
  const Clock* clock_;
  std::shared_ptr<decide::Engine> engine_;
};

}  // namespace weir
