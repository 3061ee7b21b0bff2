// Merges an answer of the origin into a tuple of windows: the counts of the siblings and of the
// other regions, what the origin has of the own count, refusals, and how fresh the tuple is now.
// Reads, replays and steps all end here.
//
// Safe from any thread.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "memory/publish_watch.h"
#include "memory/tuple_store.h"
#include "regional/freshness.h"
#include "regional/region_state.h"
#include "telemetry/limiter_counters.h"
#include "weir/origin.h"

namespace weir::regional {

// An answer of the origin about a window of a tuple and the one before.
struct WindowsAnswer {
  // When the question was sent.
  Instant began{};
  int64_t sequence = 0;  // of the window
  bool is_now = true;    // the window was the current one: only that makes a tuple fresh
  Count own = 0;         // the own count in it
  // The epoch of the origin, if the question wrote the own count.
  std::optional<uint64_t> epoch = std::nullopt;
  Count written = 0;  // the totals that a replay wrote: the origin must have as much
  Count written_last = 0;

  Extent extent = Extent::kBoth;
  const CellTotals* current = nullptr;
  const CellTotals* last = nullptr;  // null: was not asked about
};

class Merger {
 public:
  // `publish_watch` is null without a ledger.
  Merger(std::shared_ptr<memory::TupleStore> tuples, std::shared_ptr<RegionState> region,
         std::shared_ptr<memory::PublishWatch> publish_watch,
         std::shared_ptr<telemetry::LimiterCounters> counters)
      : tuples_(std::move(tuples)),
        region_(std::move(region)),
        publish_watch_(std::move(publish_watch)),
        counters_(std::move(counters)) {}

  // The caller holds an epoch guard. The tuple must be of the generation that it had when the
  // question was sent: a tuple that was created again has another component, and the answer counts
  // its former one as a sibling.
  void merge(const memory::Tuple& tuple, const WindowsAnswer& answer) const;

  // The origin has `mine` of the own count. If it acknowledged more before, it lost counts: an
  // empty restart, an old snapshot, a lagging replica, a late write of a dead connection. Then this
  // lowers the acknowledged count and returns true: the caller queues the cell for another replay.
  bool lower_acked(const memory::Tuple& tuple, int64_t sequence, Count mine, MonoTime now) const;

 private:
  void merge_cell(const memory::Tuple& tuple, int64_t sequence, const CellTotals& received,
                  Count written, const WindowsAnswer& answer) const;

  const std::shared_ptr<memory::TupleStore> tuples_;
  const std::shared_ptr<RegionState> region_;
  const std::shared_ptr<memory::PublishWatch> publish_watch_;
  const std::shared_ptr<telemetry::LimiterCounters> counters_;
};

}  // namespace weir::regional
