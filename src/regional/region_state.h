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

#include "base/atomic.h"
#include "memory/dirty_list.h"
#include "memory/tuple_store.h"
#include "memory/window_cells.h"
#include "regional/incarnation.h"
#include "weir/options.h"
#include "weir/origin.h"

namespace weir::regional {

struct RegionState {
  RegionState(const Options& options, memory::TupleStore& tuples)
      : origin(options.origin),
        incarnation(make_incarnation(options.seed)),
        read_deadline(options.read_deadline),
        max_freshness(options.max_freshness),
        replay_within(options.replay_within),
        on_origin_loss(options.on_origin_loss),
        pending_replay(options.origin ? tuples.table.slots() : 0) {
    if (!origin) return;
    tuples.budget.take(memory::Part::kTable, memory::DirtyList::bytes_for(tuples.table.slots()));
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

  // Fixed after construction.
  const std::shared_ptr<RegionalOrigin> origin;  // none: this process is alone in its region
  const uint64_t incarnation;
  const Millis read_deadline;
  const Millis max_freshness;
  const Millis replay_within;

  // Written by Limiter::set_on_origin_loss(). Independent of other words: relaxed.
  std::atomic<OnOriginLoss> on_origin_loss;
  // Pushed by the Decider, Refresh and Replay; taken by Replay.
  memory::DirtyList pending_replay;
  // Written by Replay. How long the oldest unacknowledged cost has waited, in ns.
  std::atomic<int64_t> replay_lag{0};
  // Written by Replay. Start of the first message that failed since the last acknowledgement, in
  // monotonic ns; 0: none. Relaxed.
  base::Atomic<int64_t> failing_since{0};
};

}  // namespace weir::regional
