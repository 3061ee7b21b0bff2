// Cells that wait to be published, and which process of the region publishes each.
//
// For each tuple one process of the region publishes first. The others wait for as long as that
// takes, then ask the origin whether the first one noted its publication, and publish only if not.
//
// Only from the thread that runs the sync; replies come through the completion queue.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "global/completion_queue.h"
#include "global/global_state.h"
#include "global/regions.h"
#include "global/row_budget.h"
#include "memory/tuple_store.h"
#include "regional/region_state.h"
#include "weir/limiter.h"

namespace weir::global {

class PublishQueue {
 public:
  PublishQueue(const memory::TupleStore& tuples, const regional::RegionState& region,
               GlobalState& global, std::shared_ptr<CompletionQueue> completions,
               const Regions& regions, RowBudget& budget)
      : tuples_(tuples),
        region_(region),
        remote_(global.remote),
        completions_(std::move(completions)),
        regions_(regions),
        budget_(budget) {}

  // The cell has a reason to be published; under the mutex of the remote counts.
  void enqueue(Instant now, RemoteEntry& entry, RemoteCell& cell, PublishReason reason);
  // Queues an entry with pending cells.
  void add(RemoteEntry& entry);

  struct Candidate {
    RemoteEntry* entry = nullptr;
    RemoteCell* cell = nullptr;
  };
  // The cells that this process may publish now, in order of priority: first contended and
  // exhausted cells, then presences, round robin over the namespaces.
  [[nodiscard]] std::vector<Candidate> choose(Instant now, Flush flush);
  // Removes entries without pending cells.
  void remove_idle();
  // Removes the entry that was added last, and discards its pending cells.
  RemoteEntry& drop_last();

  [[nodiscard]] size_t size() const { return queue_.size(); }
  // When the oldest pending cell was enqueued; `now`, if there is none.
  [[nodiscard]] MonoTime waiting_since(MonoTime now) const;
  // Records how long a write took.
  void note_latency(Nanos latency) { latency_ = std::max(latency, latency_ - latency_ / 8); }

 private:
  [[nodiscard]] Nanos head_start() const;
  [[nodiscard]] bool publishes_first(const RemoteEntry& entry) const;
  [[nodiscard]] bool is_ready(Instant now, const RemoteEntry& entry, RemoteCell& cell, Flush flush,
                              std::vector<CellRead>& reads) const;
  void read_notes(std::vector<CellRead> cells);
  void merge_note(const CellId& id, Count published);

  const memory::TupleStore& tuples_;
  const regional::RegionState& region_;
  RemoteCounts& remote_;
  const std::shared_ptr<CompletionQueue> completions_;
  const Regions& regions_;
  RowBudget& budget_;
  std::vector<RemoteEntry*> queue_;
  Nanos latency_{0};  // about the longest of late
};

}  // namespace weir::global
