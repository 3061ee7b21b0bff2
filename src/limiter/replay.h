// Telling the origin what this process accepted.
//
// What is told is the settled total of our own component, so that a replay that timed
// out is simply sent again. Nothing is queued but the places of the tuples that have
// something to tell; the counts stay in their cells. The read-back, not the
// acknowledgement, makes a tuple fresh.
//
// Safe from any thread: the runs take turns. A reply never waits for a run.

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/mutex.h"
#include "limiter/freshness.h"
#include "limiter/store.h"
#include "weir/executor.h"
#include "weir/limiter.h"
#include "weir/origin.h"

namespace weir::limiter {

class Replay : public std::enable_shared_from_this<Replay> {
 public:
  explicit Replay(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  // Sends the dirty tuples that are due, or all; what fails is dirty again when its reply or
  // deadline comes.
  WorkReport run_once(Instant now, Executor& timers, Flush flush);

  // Retires all that was told, once; later calls say how much of that was not confirmed.
  WorkReport leave(Instant now);

  // Cells with something to tell, and how long the first of them has been waiting for it to be
  // heard. Safe from any thread; as of the last run.
  [[nodiscard]] size_t unacked() const {
    return waiting_.load(std::memory_order_relaxed) + in_flight_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] Nanos lag() const {
    return Nanos(store_->replay_lag.load(std::memory_order_relaxed));
  }

 private:
  struct Sent;
  struct Batch;
  static constexpr size_t kBatchTuples = 256;
  // Cells told and not answered: some 50 ms of work for a Redis server.
  static constexpr size_t kMostInFlight = 4096;

  // A dirty tuple whose time has not come, with what was found when it was looked at: as long
  // as that is so, one look at its first line tells whether it has come. Each look takes that
  // line away from who charges it, so it is not looked at before it could have come, at four
  // times the pace that was seen.
  struct Pending {
    uint32_t index = 0;
    MonoTime since{};
    uint64_t generation = 0;  // 0: not looked at yet
    int64_t sequence = 0;
    uint64_t others = 0;  // the word
    Count due_at = 0;     // own count
    Count own = 0;        // when it was last looked at
    MonoTime looked{}, look_again{};
  };

  [[nodiscard]] bool due(Instant now, Pending& pending) const WEIR_REQUIRES(mutex_);
  void look_at(Instant now, const memory::Tuple& tuple, Pending& pending) const;
  [[nodiscard]] bool collect(Instant now, uint32_t index, Batch& batch) const;
  void list_all_again(WallTime now) WEIR_REQUIRES(mutex_);
  void choose_due_after(MonoTime now) WEIR_REQUIRES(mutex_);
  void collect_cell(WallTime now, const memory::Tuple& tuple, int64_t sequence, Extent extent,
                    Batch& batch) const;
  void send(Instant now, const std::shared_ptr<Batch>& batch, Executor& timers)
      WEIR_REQUIRES(mutex_);
  void land(const Batch& batch, const Result<std::vector<CellTotals>>& totals);
  void fail(const Batch& batch);
  void note_failing(const Batch& batch);
  void mark_again(const Batch& batch);
  WorkReport wait(Instant now) WEIR_REQUIRES(mutex_);
  void take_dirty(Instant now) WEIR_REQUIRES(mutex_);
  void note_waiting(Instant now) WEIR_REQUIRES(mutex_);
  void retire(std::vector<CellRetirement> cells);

  const std::shared_ptr<Store> store_;
  // One run at a time. Held while the origin is handed a message, so that no total of a cell
  // overtakes a later one. That does not wait for the answer, and an answer that comes at once
  // takes no lock.
  base::Mutex mutex_;
  // A run that waited for its turn brings an older time.
  Instant latest_ WEIR_GUARDED_BY(mutex_){};
  std::vector<Pending> pending_ WEIR_GUARDED_BY(mutex_);
  uint64_t epoch_ WEIR_GUARDED_BY(mutex_) = 0;  // of the origin
  // The next slot to tell again; beyond the end: all are.
  size_t again_at_ WEIR_GUARDED_BY(mutex_) = ~size_t{0};
  Nanos due_after_ WEIR_GUARDED_BY(mutex_){0};  // in this run, what is not due at once
  MonoTime acked_together_ WEIR_GUARDED_BY(mutex_){};
  bool left_ WEIR_GUARDED_BY(mutex_) = false;

  // Single numbers: relaxed.
  base::Atomic<size_t> waiting_{0}, in_flight_{0}, leaving_{0};
};

}  // namespace weir::limiter
