// Sends the origin the counts that this process accepted.
//
// A message carries the settled total of our own component, so a replay that timed out is simply
// sent again. The queue holds only slot numbers; the counts stay in their cells. The totals that
// the origin returns, not its acknowledgement, make a tuple fresh.
//
// Safe from any thread: runs are serialised. A reply never waits for a run.

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/mutex.h"
#include "memory/tuple_store.h"
#include "regional/freshness.h"
#include "regional/merger.h"
#include "regional/region_state.h"
#include "regional/steps.h"
#include "telemetry/limiter_counters.h"
#include "weir/executor.h"
#include "weir/limiter.h"
#include "weir/origin.h"

namespace weir::regional {

class Replay : public std::enable_shared_from_this<Replay> {
 public:
  // `steps` is null if the origin has none.
  Replay(std::shared_ptr<memory::TupleStore> tuples, std::shared_ptr<RegionState> region,
         std::shared_ptr<const Merger> merger, std::shared_ptr<Steps> steps,
         std::shared_ptr<telemetry::LimiterCounters> counters)
      : tuples_(std::move(tuples)),
        region_(std::move(region)),
        merger_(std::move(merger)),
        steps_(std::move(steps)),
        counters_(std::move(counters)) {}

  // Sends the dirty tuples that are due, or all. A tuple whose message fails is dirty again when
  // the error or the deadline comes.
  WorkReport run_once(Instant now, Executor& timers, Flush flush);

  // Retires all acknowledged components, once; later calls report how many are not confirmed yet.
  WorkReport shut_down(Instant now);

  // Cells that the origin has not acknowledged, and how long the oldest has waited. Safe from any
  // thread; as of the last run.
  [[nodiscard]] size_t unacked() const {
    const size_t tells = steps_ == nullptr ? 0 : steps_->reports_in_flight();
    return waiting_.load(std::memory_order_relaxed) + in_flight_.load(std::memory_order_relaxed) +
           tells;
  }
  [[nodiscard]] Nanos lag() const {
    return Nanos(region_->replay_lag.load(std::memory_order_relaxed));
  }

 private:
  struct Sent;
  struct Batch;
  static constexpr size_t kBatchTuples = 256;
  // Unanswered cells: about 50 ms of work for a Redis server.
  static constexpr size_t kMaxInFlight = 4096;

  // A dirty tuple that is not due yet, with its state at the last check. While that state holds,
  // one load from the tuple's first cache line tells whether it is due. Each such load takes the
  // line from the threads that charge it, so the next check waits until the tuple could be due at
  // four times the observed rate.
  struct Pending {
    uint32_t index = 0;
    MonoTime since{};
    bool exact = false;       // the origin keeps the whole state of the tuple
    uint64_t generation = 0;  // 0: not checked yet
    int64_t sequence = 0;
    uint64_t others = 0;  // the word
    Count due_at = 0;     // own count
    Count own = 0;        // at the last check
    MonoTime last_check{}, next_check{};
  };

  [[nodiscard]] bool is_due(Instant now, Pending& pending) const WEIR_REQUIRES(mutex_);
  void check(Instant now, const memory::Tuple& tuple, Pending& pending) const WEIR_REQUIRES(mutex_);
  [[nodiscard]] bool is_half_used(uint32_t index) const;
  [[nodiscard]] bool collect(Instant now, uint32_t index, Batch& batch) const WEIR_REQUIRES(mutex_);
  void requeue_all_after_loss(Instant now) WEIR_REQUIRES(mutex_);
  void choose_due_after(MonoTime now) WEIR_REQUIRES(mutex_);
  void collect_cell(WallTime now, const memory::Tuple& tuple, int64_t sequence, Extent extent,
                    Batch& batch) const WEIR_REQUIRES(mutex_);
  void note_unanswered_due() WEIR_REQUIRES(mutex_);
  [[nodiscard]] Due unanswered_due(const DueCell& cell) const WEIR_REQUIRES(mutex_);
  [[nodiscard]] size_t send_due(Instant now, Executor& timers) WEIR_REQUIRES(mutex_);
  void send(Instant now, const std::shared_ptr<Batch>& batch, Executor& timers)
      WEIR_REQUIRES(mutex_);
  void on_reply(const Batch& batch, const Result<std::vector<CellTotals>>& totals);
  void fail(const Batch& batch);
  void end(const Batch& batch);
  void note_failing(const Batch& batch);
  void mark_dirty_again(const Batch& batch);
  WorkReport wait(Instant now) WEIR_REQUIRES(mutex_);
  void take_dirty(Instant now) WEIR_REQUIRES(mutex_);
  [[nodiscard]] bool has_unwritten() const WEIR_REQUIRES(mutex_);
  void update_lag(Instant now) WEIR_REQUIRES(mutex_);
  void retire(std::vector<CellRetirement> cells);

  const std::shared_ptr<memory::TupleStore> tuples_;
  const std::shared_ptr<RegionState> region_;
  const std::shared_ptr<const Merger> merger_;
  const std::shared_ptr<Steps> steps_;
  const std::shared_ptr<telemetry::LimiterCounters> counters_;
  // Serialises runs. Held while a message is handed to the origin, so that no total of a cell
  // overtakes a later one. Handing over does not wait for the reply, and a reply takes no lock.
  base::Mutex mutex_;
  Instant latest_
      WEIR_GUARDED_BY(mutex_){};  // a run that waited for the mutex brings an older time
  std::vector<Pending> pending_ WEIR_GUARDED_BY(mutex_);
  uint64_t epoch_ WEIR_GUARDED_BY(mutex_) = 0;  // of the origin
  // The next slot to queue again; beyond the end: none.
  size_t requeue_at_ WEIR_GUARDED_BY(mutex_) = ~size_t{0};
  Nanos due_after_ WEIR_GUARDED_BY(mutex_){0};  // in this run, for tuples that are not due at once
  MonoTime grouped_at_
      WEIR_GUARDED_BY(mutex_){};  // the last run that sent tuples before their time
  bool retired_ WEIR_GUARDED_BY(mutex_) = false;
  // Messages without an answer that made cells due, and these cells, in order.
  std::vector<std::shared_ptr<const Batch>> due_batches_ WEIR_GUARDED_BY(mutex_);
  std::vector<DueCell> unanswered_due_ WEIR_GUARDED_BY(mutex_);

  // Independent numbers: relaxed.
  base::Atomic<size_t> waiting_{0}, in_flight_{0}, retiring_{0};
  base::Atomic<size_t> writing_{0};  // batches in flight that write; see take_dirty()
};

}  // namespace weir::regional
