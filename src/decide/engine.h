// The production engine: validates a request, reads the origin if needed, decides, and marks the
// tuple for replay and publishing.
//
// Servers, embedders (through weir::Limiter) and the simulator all run this class. It knows only
// ports. Its members are defined by path: engine.cc has the fast path, slow_path.cc the rest of a
// single request, batch_path.cc batches, ask_path.cc what is asked of the origin, usage_path.cc
// what regions tell each other, takeover_path.cc requests after a change of their duration,
// maintenance.cc the background work, reset, saved state and inspection.
//
// Safe from any thread.

#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/atomic.h"
#include "base/inline.h"
#include "base/mutation.h"
#include "base/mutex.h"
#include "decide/batch.h"
#include "decide/decider.h"
#include "decide/limiter_state.h"
#include "decide/request_context.h"
#include "global/region_sync.h"
#include "memory/takeover_marks.h"
#include "regional/foreign_use.h"
#include "regional/refresh.h"
#include "regional/replay.h"
#include "regional/steps.h"
#include "weir/limiter.h"

namespace weir::decide {

// The state of one cell, for checkers and for inspection.
struct CellView {
  std::string tuple;
  int64_t sequence = 0;
  Count own = 0;
  Count siblings = 0;
  Count foreign = 0;
  Count tentative = 0;
  Count acked = 0;
  uint64_t generation = 0;
};

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  // Always shared: requests in flight keep it alive. All times passed in later are readings of this
  // clock.
  [[nodiscard]] static std::shared_ptr<Engine> make(const Clock& clock, const Options& options) {
    return std::shared_ptr<Engine>(new Engine(clock, options));
  }

  // See weir::Limiter for the contracts.
  Result<Verdict> check(Instant now, const Request& request);
  void check_each(Instant now, std::span<const Request> requests,
                  std::span<Result<Verdict>> verdicts);
  // True: all are decided, and `done` was neither called nor moved from.
  [[nodiscard]] bool check_each_async(Instant now, std::span<const Request> requests,
                                      std::span<Result<Verdict>> verdicts, Executor& home,
                                      Task&& done);
  Result<BatchVerdict> check_all(Instant now, std::span<const Request> requests);
  // True: `done` was called before the return.
  bool check_async(Instant now, const Request& request, Executor& home, VerdictHandler done) {
    return check_async(now, request, caller_of(now, home), std::move(done));
  }
  bool check_all_async(Instant now, std::span<const Request> requests, Executor& home,
                       BatchHandler done) {
    return check_all_async(now, requests, caller_of(now, home), std::move(done));
  }

  Result<bool> reset(Instant now, const Request& request);
  [[nodiscard]] bool may_wait() const { return state_.tuples->has_origin(); }
  WorkReport run_replay(Instant now, Executor& timers, Flush flush = Flush::kDue);
  WorkReport run_shutdown(Instant now);
  WorkReport run_sync(Instant now, Flush flush = Flush::kDue);
  [[nodiscard]] SyncStats sync_stats() const;
  WorkReport run_sweep(Instant now, size_t slots);
  [[nodiscard]] LimiterStats stats() const;
  SaveReport save(Instant now, Saving saving, const std::function<void(std::string_view)>& write);
  bool restore(Instant now, std::string_view record);
  void set_consistency(Consistency consistency) {
    state_.region->consistency.store(consistency, std::memory_order_relaxed);
  }
  void set_on_origin_loss(OnOriginLoss policy) {
    state_.region->on_origin_loss.store(policy, std::memory_order_relaxed);
  }

  // Visits the live cells of window tuples.
  void inspect(const std::function<void(const CellView&)>& visit) const;
  // The same as the publish rule sees them.
  void inspect_sync(Instant now,
                    const std::function<void(const global::SharedCell&)>& visit) const {
    if (sync_ != nullptr) sync_->inspect(now, visit);
  }
  [[nodiscard]] uint64_t incarnation() const { return state_.region->incarnation; }

 private:
  Engine(const Clock& clock, const Options& options);

  // The parts of check() and check_each(), from the most frequent to the rest. The first three
  // return false if they did nothing.
  [[nodiscard]] bool check_fast(Instant now, const Request& request, Verdict& verdict);
  [[nodiscard]] bool check_known(Instant now, const Request& request, Verdict& verdict);
  [[nodiscard]] bool check_found(memory::Slot& slot, Instant now, const Request& request,
                                 Verdict& verdict);
  void check_slow(Instant now, const Request& request, Result<Verdict>& result);
  // All that a call waits for shares its deadline.
  [[nodiscard]] regional::Caller caller_of(Instant now, Executor& home) const {
    return {.home = &home, .deadline = now.mono + state_.region->read_deadline};
  }
  bool check_async(Instant now, const Request& request, const regional::Caller& caller,
                   VerdictHandler done);
  bool check_all_async(Instant now, std::span<const Request> requests,
                       const regional::Caller& caller, BatchHandler done);
  // Whether the caller can wait for the origin. If not, requests are relaxed.
  enum class Waiting : uint8_t { kPossible, kImpossible };
  template <memory::Scope kScope, typename Slow>
  void check_group(Instant now, std::span<const Request> requests,
                   std::span<Result<Verdict>> verdicts, Waiting waiting, const Slow& slow);
  void mark_fast(const memory::Tuple& tuple, const Request& request, Verdict& verdict);

  [[nodiscard]] Consistency consistency_of(std::optional<Consistency> requested,
                                           Waiting waiting) const;
  [[nodiscard]] regional::ReadRequirement read_requirement(RequestContext& context,
                                                           Waiting waiting);
  // Whether the origin keeps the whole state of the request: counts of these algorithms cannot be
  // merged.
  [[nodiscard]] bool is_decided_exactly(Algorithm algorithm, std::optional<Consistency> requested,
                                        Waiting waiting) const {
    return has_exact_store_ && memory::class_of(algorithm) != memory::CellClass::kWindow &&
           consistency_of(requested, waiting) != Consistency::kRelaxed;
  }
  // read_requirement() of such a request. Creates its tuple, to keep what the origin answers.
  [[nodiscard]] regional::ReadRequirement exact_requirement(RequestContext& context,
                                                            Waiting waiting);
  // What this process can say of such a request alone: it admits it by its allowance, or knows that
  // the origin would deny it.
  [[nodiscard]] bool decide_locally(memory::Slot& slot, Instant now, const Request& request,
                                    Verdict& verdict);
  [[nodiscard]] bool admit_locally(const memory::Tuple& tuple, const memory::Query& query,
                                   Count most, Verdict& verdict);
  // Counts an admission for the other regions; see memory/usage_key.h.
  void count_for_regions(Instant now, const memory::TupleKey& key, const memory::Query& query);
  // Charges what the other regions have admitted since to the state in this process.
  void charge_foreign(RequestContext& context);
  [[nodiscard]] regional::ForeignUse foreign_use_of(const RequestContext& context,
                                                    const memory::TupleKey& usage) const;
  [[nodiscard]] Count foreign_units(const RequestContext& context) const;
  [[nodiscard]] bool is_in_table(const memory::TupleKey& key) const;
  // Asks the origin. First renews what is known of the tuples whose usage an open tuple has taken
  // over (memory/conversion.h), and tells the origin; of tuples whose state it keeps, also reads
  // what the other regions have admitted, if that is not known. `keys`: owns what the requests
  // point to.
  void ask(Instant now, std::vector<regional::StepRequest> requests, std::shared_ptr<void> keys,
           const regional::Caller& caller, regional::StepHandler done);
  // The tuples whose usage counts for a request on another one, and what the origin answers about
  // them.
  struct Sources {
    struct Window {
      memory::TupleKey key;
      regional::ReadRequirement requirement = regional::ReadRequirement::kStale;
      regional::ReadResult read{};
    };
    struct Kept {  // the origin keeps its whole state
      memory::TupleKey key;
      memory::Query peek;
      regional::StepResult answer{};
    };
    std::vector<Window> windows;
    std::vector<Kept> kept;
    std::vector<regional::StepRequest> converted;  // requests on open tuples of windows

    [[nodiscard]] bool empty() const { return windows.empty() && kept.empty(); }
    [[nodiscard]] bool answered() const;
  };
  using SourcesPtr = std::shared_ptr<Sources>;
  // Null: all requests may be asked for at once.
  [[nodiscard]] SourcesPtr sources_of(Instant now,
                                      const std::vector<regional::StepRequest>& requests);
  [[nodiscard]] bool is_open(const memory::TupleKey& key) const;
  void add_conversion(Instant now, const regional::StepRequest& request, Sources& sources) const;
  [[nodiscard]] std::optional<Sources::Window> unread_usage(Instant now,
                                                            const regional::StepRequest& request);
  // Asks the origin about all of them, of which there must be one, then calls the handler.
  void renew(Instant now, const SourcesPtr& sources, const regional::Caller& caller, Task done);
  void convert_windows(const std::vector<regional::StepRequest>& requests) const;
  // Requests whose duration was changed: takeover_path.cc.
  [[nodiscard]] bool must_take_over(Instant now, const Request& request) const;
  Result<Verdict> check_after_change(Instant now, const Request& request);
  bool check_async_after_change(Instant now, const Request& request, const regional::Caller& caller,
                                VerdictHandler done);
  Result<BatchVerdict> check_all_after_change(Instant now, std::span<const Request> requests);
  bool check_all_async_after_change(Instant now, std::span<const Request> requests,
                                    const regional::Caller& caller, BatchHandler done);
  struct Takeover;
  using TakeoverPtr = std::shared_ptr<Takeover>;
  struct Units {
    Count all = 0;
    Count region = 0;  // the part that this region has admitted
  };
  [[nodiscard]] Units units_of(const memory::TupleKey& key, Algorithm algorithm, Instant now) const;
  [[nodiscard]] Units known_past(const RequestContext& context, const PastDurations& past) const;
  // A reset: what was counted by past durations is not taken over. Whether there was any.
  bool forget_past(Instant now, const Request& request);
  [[nodiscard]] Count take_over_known(Instant now, const Request& request);
  [[nodiscard]] bool raise_to(const RequestContext& context, Count units);
  struct Taken {
    Count units = 0;
    bool complete = true;  // false: the origin did not answer in time
  };
  // Calls the handler with what the request takes over. True: it was called before the return.
  bool take_over(Instant now, const Request& request, const regional::Caller& caller,
                 UniqueFunction<void(Taken)> done);
  void report_taken(const Request& request, Instant now, Taken taken, Verdict& verdict);
  void on_reads_done(const TakeoverPtr& call);
  void raise_window(const TakeoverPtr& call);
  void raise_exact(const TakeoverPtr& call);
  void end_takeover(Takeover& call, bool told);
  void mark_taken_over(const Takeover& call);
  [[nodiscard]] bool counts_for_regions() const {
    return is_region_ || (has_exact_store_ && sync_ != nullptr);
  }
  // Whether the request is on a state in this process that the other regions share.
  [[nodiscard]] bool shares_as_region(Algorithm algorithm,
                                      std::optional<Consistency> requested) const {
    return is_region_ && memory::class_of(algorithm) != memory::CellClass::kWindow &&
           (requested.value_or(state_.region->consistency.load(std::memory_order_relaxed)) !=
                Consistency::kRelaxed ||
            base::mutated(base::Mutation::kRelaxedShared));
  }
  // Counts a cost that the origin does not know.
  void note_own(const RequestContext& context);
  void replay_refused(const memory::Tuple& tuple, MonoTime now);
  // Why the origin does not decide a request.
  enum class Missing : uint8_t { kOrigin, kAnswer };
  void degrade(RequestContext& context, Missing missing);
  void degrade_exact(RequestContext& context, Missing missing) const;
  [[nodiscard]] std::optional<memory::CellDecision> standing_denial_of(
      const RequestContext& context) const;
  // Answers with the limit of the request, after a decision on a share of it.
  static void undo_division(const RequestContext& context, Verdict& verdict);
  void charge_after_answer(const RequestContext& context);
  [[nodiscard]] Missing missing_now(const RequestContext& context) const;
  void decide_unread(RequestContext& context, regional::ReadRequirement requirement,
                     Verdict& verdict);
  // Decides a request that may not have to wait. False: the origin must decide it, because other
  // requests have used the allowance up meanwhile; nothing was done.
  [[nodiscard]] bool decide_known(RequestContext& context, regional::ReadRequirement requirement,
                                  Verdict& verdict);
  [[nodiscard]] memory::CellDecision deny_evicted(const RequestContext& context);
  void finish_step(const regional::StepResult& result, RequestContext& context, Verdict& verdict);
  void decide(const RequestContext& context, Basis basis, Verdict& verdict);
  // For a tuple that is not in the table, or that another thread moves.
  void decide_uncommon(const RequestContext& context, Basis basis, Verdict& verdict);
  [[nodiscard]] Basis basis_after_read(const regional::ReadResult& read, RequestContext& context);
  void decide_and_recheck(const RequestContext& context, Basis basis, Verdict& verdict);
  [[nodiscard]] bool is_unread(const RequestContext& context) const;

  [[nodiscard]] Result<std::vector<RequestContext>> contexts_of(
      Instant now, std::span<const Request> requests) const;
  struct BatchCall;
  // True: the batch was decided before the return.
  bool read_then_ask(Instant now, const std::shared_ptr<BatchCall>& call,
                     std::vector<regional::ReadRequest> reads);
  [[nodiscard]] bool is_denied_here(BatchCall& call);
  bool ask_all(Instant now, const std::shared_ptr<BatchCall>& call);
  void classify_peek(BatchCall& call, size_t item);
  void note_answer(BatchCall& call, size_t item);
  [[nodiscard]] std::vector<size_t> next_denied(BatchCall& call) const;
  void charge_next(Instant now, const std::shared_ptr<BatchCall>& call);
  bool finish_batch(Instant now, const std::shared_ptr<BatchCall>& call);
  [[nodiscard]] BatchVerdict decide_all(std::vector<RequestContext>& contexts,
                                        std::vector<Basis> bases, const BatchAnswers& decided);
  void count_batch(const BatchVerdict& verdict);

  void fill(const memory::Query& query, const memory::CellDecision& result, Basis basis,
            Verdict& verdict) const;
  // Whether the counts of other regions are too old.
  [[nodiscard]] bool is_behind(Algorithm algorithm) const;
  void count(const Verdict& verdict);
  void charge_difference(const memory::TupleKey& key, memory::Query query, Count units);

  const LimiterState state_;
  Decider decider_;
  // Null without an origin.
  const std::shared_ptr<regional::Refresh> refresh_;
  const std::shared_ptr<regional::Steps> steps_;  // null if the origin cannot decide requests
  const bool has_exact_store_;                    // used with steps_ only
  const bool is_region_;  // no origin, and other regions: this process is one
  const std::shared_ptr<regional::Replay> replay_;
  // Null without a ledger.
  const std::shared_ptr<global::RegionSync> sync_;
  memory::TakeoverMarks takeover_marks_{*state_.tuples};
  base::Mutex takeover_mutex_;               // one at a time compares and raises a count
  std::atomic<uint64_t> takeover_calls_{0};  // relaxed
  std::atomic<uint64_t> resets_{0};          // a saved state may be of a tuple that was reset since
  base::Mutex save_mutex_;
  uint64_t saved_resets_ WEIR_GUARDED_BY(save_mutex_) = 0;
};

inline bool Engine::is_behind(Algorithm algorithm) const {
  return state_.global != nullptr && state_.global->behind.load(std::memory_order_relaxed) &&
         memory::class_of(algorithm) == memory::CellClass::kWindow;
}

WEIR_HOT_INLINE void Engine::fill(const memory::Query& query, const memory::CellDecision& result,
                                  Basis basis, Verdict& verdict) const {
  const algorithms::Decision& decision = result.decision;
  verdict.outcome = decision.outcome;
  verdict.basis = result.approximate || is_behind(query.algorithm) ? Basis::kDegraded : basis;
  verdict.limit = query.ask.capacity;
  verdict.remaining = decision.remaining;
  verdict.reset = decision.reset;
  verdict.retry_after.reset();
  if (decision.retry_at) {
    verdict.retry_after = std::max(*decision.retry_at - query.now, Millis(1));
  }
  verdict.evidence = result.evidence;
}

WEIR_HOT_INLINE void Engine::count(const Verdict& verdict) {
  using telemetry::Stat;
  state_.counters->add(verdict.admitted() ? Stat::kAdmitted : Stat::kDenied);
  if (verdict.basis == Basis::kDegraded) [[unlikely]]
    state_.counters->add(Stat::kDegraded);
}

}  // namespace weir::decide
