// Evaluates cells against the publish rule whenever its answer may have changed.
//
// It may change when a tuple is charged or refused, when another region's or a sibling's count
// changes, and with time: at the end of a window or of a lease. A cell with a reason to publish
// goes into the queue. For the others this sets the count to watch for, so that a request that
// changes the answer puts its tuple on the list (PublishWatch).
//
// Only from the thread that runs the sync.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "global/global_state.h"
#include "global/publish_queue.h"
#include "global/regions.h"
#include "global/row_budget.h"
#include "memory/publish_watch.h"
#include "memory/tuple_store.h"

namespace weir::global {

// One cell as the publish rule sees it, for checkers and for inspection.
struct SharedCell {
  std::string tuple;
  int64_t sequence = 0;
  CellUsage usage{};
  PublishReason reason = PublishReason::kNone;
  Count published = 0;  // in the ledger
  Count foreign = 0;
  bool waits = false;  // in the queue or in flight
};

class PublishTrigger {
 public:
  PublishTrigger(memory::TupleStore& tuples, GlobalState& global, memory::PublishWatch& watch,
                 const Regions& regions, const RowBudget& budget, PublishQueue& queue)
      : tuples_(tuples),
        remote_(global.remote),
        watch_(watch),
        regions_(regions),
        budget_(budget),
        queue_(queue) {}

  void evaluate_listed(Instant now);  // the tuples of the publish watch
  void evaluate_due(Instant now);     // the entries whose timer expired
  void evaluate(Instant now, RemoteEntry& entry);
  // Evaluates all tuples, some per run: the rule itself has changed.
  void evaluate_all() { scan_at_ = 0; }
  // Evaluates the entry at that time or sooner.
  void schedule(RemoteEntry& entry, MonoTime when);

  // Cells with a reason to publish for which there was no memory, and when the last one was
  // skipped. The next charge, refusal or change evaluates such a tuple again.
  struct Skipped {
    uint64_t cells = 0;
    MonoTime at{};
  };
  [[nodiscard]] const Skipped& skipped() const { return skipped_; }

  // Visits the live cells of window tuples.
  void inspect(Instant now, const std::function<void(const SharedCell&)>& visit) const;

 private:
  struct RegionCounts;
  struct Usages;

  [[nodiscard]] static std::optional<RegionCounts> region_counts(const memory::Tuple& tuple,
                                                                 WallTime now);
  [[nodiscard]] Usages usages_of(Instant now, const memory::Tuple& tuple,
                                 const RegionCounts& counts, const RemoteEntry* entry,
                                 bool refused) const;
  void evaluate(Instant now, const memory::Tuple& tuple);
  void merge_known(Instant now, const memory::Tuple& tuple);
  void scan(Instant now);
  void cancel_timer(RemoteEntry& entry);
  // False: there is no memory for it.
  [[nodiscard]] bool update_cell(Instant now, RemoteEntry& entry, int64_t sequence, Count limit,
                                 const CellUsage& usage, PublishReason reason)
      WEIR_REQUIRES(remote_.mutex());
  void skip(Instant now, const memory::Tuple& tuple, bool refused);
  void expire(Instant now, RemoteEntry& entry);

  memory::TupleStore& tuples_;
  RemoteCounts& remote_;
  memory::PublishWatch& watch_;
  const Regions& regions_;
  const RowBudget& budget_;
  PublishQueue& queue_;
  RemoteTimers timers_;
  size_t scan_at_ = ~size_t{0};
  Skipped skipped_;
};

}  // namespace weir::global
