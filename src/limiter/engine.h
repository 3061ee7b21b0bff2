// The order of things: validate, look, read if needed, decide, mark.
//
// The production engine, whole: servers, embedders (through weir::Limiter) and the
// simulator run this class and no other. It knows only ports.
//
// Safe from any thread.

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "limiter/batch.h"
#include "limiter/judge.h"
#include "limiter/refresh.h"
#include "limiter/replay.h"
#include "limiter/sharing.h"
#include "limiter/store.h"
#include "weir/limiter.h"

namespace weir::limiter {

// One cell as it stands, for checkers and for people who ask why.
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
  // Always shared: requests under way keep it alive. Every time handed in later is a
  // reading of this clock.
  [[nodiscard]] static std::shared_ptr<Engine> make(const Clock& clock, const Options& options) {
    return std::shared_ptr<Engine>(new Engine(clock, options));
  }

  Result<Verdict> check(Instant now, const Request& request);
  void check_each(Instant now, std::span<const Request> requests,
                  std::span<Result<Verdict>> verdicts);
  // True: all are decided, and `done` was neither called nor moved from.
  [[nodiscard]] bool check_each_async(Instant now, std::span<const Request> requests,
                                      std::span<Result<Verdict>> verdicts, Executor& home,
                                      Task&& done);
  Result<BatchVerdict> check_all(Instant now, std::span<const Request> requests);
  // True: `done` was called before the return.
  bool check_async(Instant now, const Request& request, Executor& home, VerdictHandler done);
  bool check_all_async(Instant now, std::span<const Request> requests, Executor& home,
                       BatchHandler done);

  Result<bool> reset(Instant now, const Request& request);
  [[nodiscard]] bool may_wait() const { return store_->asks(); }
  WorkReport run_replay(Instant now, Executor& timers, Flush flush = Flush::kDue);
  WorkReport run_shutdown(Instant now);
  WorkReport run_sync(Instant now, Flush flush = Flush::kDue);
  [[nodiscard]] SyncStats sync_stats() const;
  WorkReport run_sweep(Instant now, size_t slots);
  [[nodiscard]] LimiterStats stats() const;
  SaveReport save(Instant now, Saving saving, const std::function<void(std::string_view)>& write);
  bool restore(Instant now, std::string_view record);
  void set_on_origin_loss(OnOriginLoss policy) {
    store_->on_origin_loss.store(policy, std::memory_order_relaxed);
  }

  // The live cells of window tuples.
  void inspect(const std::function<void(const CellView&)>& visit) const;
  // The same as other regions are told of them.
  void inspect_sync(Instant now, const std::function<void(const SharedCell&)>& visit) const {
    if (sync_ != nullptr) sync_->inspect(now, visit);
  }
  [[nodiscard]] uint64_t incarnation() const { return store_->incarnation; }

 private:
  Engine(const Clock& clock, const Options& options);
  // The parts of check() and check_each(), from the most frequent to the rest. The first
  // two return false if they did nothing.
  [[nodiscard]] bool check_fast(Instant now, const Request& request, Verdict& verdict);
  [[nodiscard]] bool check_found(memory::Slot& slot, Instant now, const Request& request,
                                 Verdict& verdict);
  void check_slow(Instant now, const Request& request, Result<Verdict>& result);
  [[nodiscard]] static bool has_room(size_t requests, std::span<Result<Verdict>> verdicts);
  template <memory::Scope kScope, typename Slow>
  void check_group(Instant now, std::span<const Request> requests,
                   std::span<Result<Verdict>> verdicts, const Slow& slow);
  [[nodiscard]] ReadRequirement read_requirement(const RequestContext& context);
  void look_behind(const memory::Tuple& tuple, MonoTime now);
  void degrade(RequestContext& context);
  void decide_unread(RequestContext& context, ReadRequirement requirement, Verdict& verdict);
  void decide(const RequestContext& context, Basis basis, Verdict& verdict);
  void decide_slow(const RequestContext& context, Basis basis, Verdict& verdict);
  [[nodiscard]] Basis take_in(const Received& received, RequestContext& context);
  void decide_and_look_again(const RequestContext& context, Basis basis, Verdict& verdict);
  [[nodiscard]] bool is_unread(const RequestContext& context) const;
  [[nodiscard]] BatchVerdict decide_all(std::vector<RequestContext>& contexts,
                                        const std::vector<Basis>& bases);
  [[nodiscard]] Result<std::vector<RequestContext>> contexts_of(
      Instant now, std::span<const Request> requests) const;
  void mark_fast(const memory::Tuple& tuple, const Request& request, Verdict& verdict);
  void fill(const memory::Query& query, const Ruling& ruling, Basis basis, Verdict& verdict) const;
  [[nodiscard]] bool is_behind(Algorithm algorithm) const;
  void charge_difference(const memory::TupleKey& key, memory::Query query, Count units);
  void count(const Verdict& verdict);

  const std::shared_ptr<Store> store_;
  Decider decider_;
  // None without an origin.
  const std::shared_ptr<Refresh> refresh_;
  const std::shared_ptr<Replay> replay_;
  // None without a ledger.
  const std::shared_ptr<RegionSync> sync_;
  base::Mutex saving_;
  uint64_t saved_resets_ = 0;  // guarded by saving_
};

}  // namespace weir::limiter
