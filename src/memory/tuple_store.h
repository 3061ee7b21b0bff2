// The counts that one limiter holds in memory: the table of tuples, the sketch that counts when the
// table is full, and a second sketch for the counts of evicted tuples.
//
// Requests, refresh, replay and import all read and write the table; the Decider writes the sketch;
// the table writes the evicted counts. Each part synchronises itself, all else is fixed after
// construction.
//
// Safe from any thread. Shared, because a reply of the origin may arrive after the limiter ended.

#pragma once

#include <atomic>
#include <cstdint>

#include "base/keyed_hash.h"
#include "memory/byte_budget.h"
#include "memory/conversion.h"
#include "memory/lifecycle.h"
#include "memory/memory_plan.h"
#include "memory/sketch.h"
#include "memory/table.h"
#include "memory/uncertain_grants.h"
#include "memory/window_cells.h"
#include "weir/clock.h"
#include "weir/options.h"

namespace weir::memory {

struct TupleStore {
  // `hash_seed` is a secret: a client that knew it could aim keys at one bucket.
  TupleStore(const Clock& the_clock, const Options& options, uint64_t hash_seed);

  // Whether other processes or regions count on the same tuples.
  [[nodiscard]] bool is_shared() const { return scope != Scope::kProcess; }
  // Whether the other processes of the region share an origin with this one.
  [[nodiscard]] bool has_origin() const { return scope == Scope::kRegion; }

  // Removes expired tuples among the next `slots`; returns their number.
  size_t sweep(WallTime now, size_t slots) { return table.sweep(now - keep_expired, slots); }

  // Identifies a tuple to the sketches. Its group is its workspace and namespace.
  [[nodiscard]] Sketch::Subject sketch_subject(const TupleKey& key) const;
  // A lower bound of the counts that this process had accepted when it evicted the tuple.
  [[nodiscard]] Count evicted_count(const TupleKey& key, const Query& query) {
    return evicted.counted(sketch_subject(key), query);
  }

  // Whether the cells of a window tuple can hold counts of this window. They cannot if the tuple
  // was idle for so long that tags repeat, or if it is of a future time because the clock was set
  // back. The next charge rebuilds such a tuple.
  [[nodiscard]] bool is_current(const Tuple& tuple, int64_t sequence) const {
    return WindowCells(tuple).in_tag_range(sequence) && !is_ahead_of(tuple, clock.now().wall);
  }
  [[nodiscard]] bool is_current(const Tuple& tuple, const Query& query) const {
    return is_current(tuple, algorithms::position_of(query.now, query.duration).sequence);
  }

  // Call before a tuple is created: a later conversion looks for tuples of its class.
  void note_class(const TupleKey& key);
  // The other classes of which there may be a tuple with the same names and duration.
  [[nodiscard]] ClassSet other_classes(const TupleKey& key) const;

  // Read only when a reply arrives or a request seems late: a request brings its own time.
  const Clock& clock;
  const base::KeyedHash hash;
  const Scope scope;
  // A request that waits for a read is decided at the time of its arrival, so the counts of that
  // time stay for as long as it may wait.
  const Millis keep_expired;
  const MemoryPlan plan;
  ByteBudget budget;
  Table table;
  Sketch sketch;
  Sketch evicted;
  UncertainGrants uncertain;

 private:
  std::atomic<ClassSet> classes_{0};  // of all tuples that were ever created here: relaxed

  void remember_evicted(const Tuple& tuple, const FrozenWords& frozen);
};

}  // namespace weir::memory
