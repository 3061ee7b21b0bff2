// The state that this process shares with the other processes of its region: the origin, the name
// under which this process counts there, the deadlines, and the replay that is pending.
//
// Exists without an origin, too, with an empty replay list: a process always has an incarnation.
//
// Safe from any thread.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/windows.h"
#include "base/atomic.h"
#include "base/mutex.h"
#include "memory/dirty_list.h"
#include "memory/exact_use.h"
#include "memory/tuple_store.h"
#include "memory/usage_key.h"
#include "memory/window_cells.h"
#include "regional/allowance.h"
#include "regional/incarnation.h"
#include "weir/options.h"
#include "weir/origin.h"

namespace weir::regional {

// A cell that the bridge of the region must publish, or evaluate at the end of its window.
struct DueCell {
  uint32_t index = 0;  // of the tuple in the table
  uint64_t generation = 0;
  int64_t sequence = 0;
  Due due = Due::kNow;
};

// The counts of one tuple in two windows, as the ledger has them.
struct RegionTotals {
  algorithms::WindowCounts foreign;  // of the other regions
  algorithms::WindowCounts own;      // a lower bound of the count of this region
};

// Takes what a read of the origin returned of the other regions.
class RegionCountsHandler {
 public:
  virtual ~RegionCountsHandler() = default;
  [[nodiscard]] virtual RegionTotals totals_of(const std::vector<RegionCount>& counts,
                                               int64_t sequence) const = 0;
  // Before the tuple is decided; the caller holds an epoch guard. Safe from any thread.
  virtual void merge_regions(const memory::Tuple& tuple,
                             const std::vector<RegionCount>& counts) = 0;
};

struct RegionState {
  RegionState(const Options& options, memory::TupleStore& tuples)
      : origin(options.origin),
        reads_regions(options.ledger != nullptr && origin != nullptr &&
                      origin->bridge_store() != nullptr),
        incarnation(make_incarnation(options.seed)),
        read_deadline(options.read_deadline),
        max_freshness(options.max_freshness),
        replay_within(options.replay_within),
        on_origin_loss(options.on_origin_loss),
        consistency(options.consistency),
        pending_replay(options.origin ? tuples.table.slots() : 0) {
    if (!origin) return;
    tuples.budget.reserve_fixed(memory::MemoryPart::kTable,
                                memory::DirtyList::bytes_for(tuples.table.slots()));
  }

  [[nodiscard]] Component component(uint64_t generation) const {
    return {.incarnation = incarnation, .generation = generation};
  }

  // Since when the origin has acknowledged nothing that this process replayed; none: it does.
  [[nodiscard]] std::optional<MonoTime> replay_failing_since() const {
    const int64_t since = failing_since.load(std::memory_order_relaxed);
    return since == 0 ? std::nullopt : std::optional(MonoTime(Nanos(since)));
  }

  // Queues a window tuple for replay, again if need be; the caller holds an epoch guard.
  void mark_dirty(const memory::Tuple& tuple) {
    if (memory::WindowCells(tuple).mark_dirty()) pending_replay.push(tuple.index);
  }

  // The same for a tuple whose whole state the origin keeps: it must be told what this process has
  // admitted by itself.
  void mark_unreported(const memory::Tuple& tuple) {
    if (memory::ExactUse(tuple).mark_dirty()) pending_replay.push(tuple.index);
  }

  // Other regions have admitted more of a tuple that the origin keeps: `usage` counts it. The
  // caller holds an epoch guard.
  void note_foreign(memory::TupleStore& tuples, const memory::Tuple& usage) {
    if (!origin || origin->exact_store() == nullptr) return;
    const auto counted = memory::counted_key(*usage.slot, tuples.hash);
    if (!counted) return;
    const memory::Tuple tuple = tuples.table.find(*counted);
    if (!tuple) return;
    memory::ExactUse(tuple).mark_foreign();
    mark_unreported(tuple);
  }

  // Messages of the bridge were missed: reads that began before now may lack counts of the other
  // regions.
  void note_missed_messages(MonoTime now) {
    missed_messages_at_.store(now.time_since_epoch().count(), std::memory_order_release);
  }
  [[nodiscard]] bool missed_messages_since(MonoTime began) const {
    return began.time_since_epoch().count() <= missed_messages_at_.load(std::memory_order_acquire);
  }

  // The origin has less of a cell than it acknowledged. The bridge may have read that, found
  // nothing to publish, and removed the tuple from the due set: so the count makes it due again.
  void replay_again(const memory::Tuple& tuple, uint64_t generation, int64_t sequence) {
    mark_dirty(tuple);
    if (!reads_regions) return;
    add_due({{.index = tuple.index,
              .generation = generation,
              .sequence = sequence,
              .due = Due::kRule}});
  }

  // Cells that the next replay sends at once.
  void add_due(std::vector<DueCell> cells) {
    const base::MutexLock lock(due_mutex_);
    due_.insert(due_.end(), cells.begin(), cells.end());
  }
  [[nodiscard]] std::vector<DueCell> take_due() {
    const base::MutexLock lock(due_mutex_);
    return std::exchange(due_, {});
  }

  // Fixed after construction.
  const std::shared_ptr<RegionalOrigin> origin;  // none: this process is alone in its region
  const bool reads_regions;  // with a ledger: reads also return the counts of the other regions
  const uint64_t incarnation;
  const Millis read_deadline;
  const Millis max_freshness;
  const Millis replay_within;

  // Written by Limiter::set_on_origin_loss(). Independent of other words: relaxed.
  std::atomic<OnOriginLoss> on_origin_loss;
  // The same of Limiter::set_consistency().
  std::atomic<Consistency> consistency;
  // Written by RegionSync; at least 1. Relaxed.
  std::atomic<uint32_t> other_regions{1};
  // Written by Replay. Without steps or heartbeats it stays empty.
  AllowanceTerm allowance;
  // Pushed by the Decider, Merger, Steps and Replay; taken by Replay.
  memory::DirtyList pending_replay;
  // Written by Replay. How long the oldest unacknowledged cost has waited, in ns.
  std::atomic<int64_t> replay_lag{0};
  // Written by Replay. Start of the first message that failed since the last acknowledgement, in
  // monotonic ns; 0: none. Relaxed.
  base::Atomic<int64_t> failing_since{0};
  // Set once, before the first read; null without a ledger.
  std::weak_ptr<RegionCountsHandler> region_counts;

 private:
  base::Atomic<int64_t> missed_messages_at_{-1};  // monotonic ns; -1: never
  base::Mutex due_mutex_;
  std::vector<DueCell> due_ WEIR_GUARDED_BY(due_mutex_);
};

}  // namespace weir::regional
