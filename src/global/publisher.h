// Publishes the counts of this region to the other regions.
//
// Each round writes the pending cells together, in chunks. A row carries the settled count of the
// whole region, never a count imported from others.
//
// Only from the thread that runs the sync; replies come through the completion queue.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "global/completion_queue.h"
#include "global/global_state.h"
#include "global/publish_queue.h"
#include "global/publish_trigger.h"
#include "global/regions.h"
#include "global/row_budget.h"
#include "memory/publish_watch.h"
#include "memory/tuple_store.h"
#include "regional/region_state.h"
#include "weir/limiter.h"

namespace weir::global {

class Publisher {
 public:
  Publisher(memory::TupleStore& tuples, const regional::RegionState& region, GlobalState& global,
            memory::PublishWatch& watch, std::shared_ptr<CompletionQueue> completions,
            const Regions& regions)
      : tuples_(tuples),
        region_(region),
        ledger_(*global.ledger),
        remote_(global.remote),
        completions_(std::move(completions)),
        regions_(regions),
        queue_(tuples, region, global, completions_, regions, budget_),
        trigger_(tuples, global, watch, regions, budget_, queue_) {}

  [[nodiscard]] PublishTrigger& trigger() { return trigger_; }
  [[nodiscard]] const PublishTrigger& trigger() const { return trigger_; }

  // Writes the pending cells that this process may publish now; at shutdown (kAll) all of them.
  void publish(Instant now, Flush flush);
  // Enqueues every unpublished count, at shutdown.
  void enqueue_all(Instant now);

  struct Stats {
    std::array<uint64_t, kPublishReasons> rows{};  // committed, by reason
    uint64_t errors = 0;
    uint64_t dropped = 0;   // rows that the ledger never accepts
    uint64_t overflow = 0;  // rows for which the queue was full
  };
  [[nodiscard]] const Stats& stats() const { return stats_; }
  [[nodiscard]] size_t waiting() const { return queue_.size() + in_flight_; }
  [[nodiscard]] Nanos lag(MonoTime now) const;
  [[nodiscard]] const RowBudget& budget() const { return budget_; }
  // The start of the first chunk that failed since the last commit; none: the last chunk committed.
  [[nodiscard]] std::optional<MonoTime> failing_since() const { return failing_since_; }
  // The start of the last chunk that committed.
  [[nodiscard]] MonoTime written_at() const { return written_at_; }
  // Whether a row was skipped a short while ago: then the unpublished counts have no bound.
  [[nodiscard]] bool skipped_recently(MonoTime now) const {
    const MonoTime last = std::max(overflow_at_, trigger_.skipped().at);
    return last != MonoTime{} && now - last < Millis(10'000);
  }

 private:
  struct Sent;
  struct Chunk;
  // Why a chunk failed.
  enum class Cause : uint8_t {
    kLedger,
    kLockedRow,    // another transaction holds one of the rows
    kRejectedRow,  // the ledger never accepts one of the rows
  };
  static constexpr size_t kChunkRows = 500;
  static constexpr size_t kMaxInFlight = 8 * kChunkRows;
  static constexpr size_t kMaxQueued = 20'000;
  static constexpr Millis kDeadline{5000};
  // A locked row is retried after this pause, in a chunk of its own. If more than a few rows are
  // locked, the cause is the ledger, and no row is sent before the pause ends.
  static constexpr Millis kLockedPause{1000};
  static constexpr size_t kMaxLocked = 16;

  [[nodiscard]] double rows_per_second() const;
  void add_row(const PublishQueue::Candidate& candidate, Chunk& chunk);
  void drop_beyond(Instant now, size_t most);
  void send(Instant now, const std::shared_ptr<Chunk>& chunk);
  void commit(Instant now, Chunk& chunk);
  void fail(Instant now, Chunk& chunk, Cause cause);
  void send_halves(Instant now, const Chunk& chunk);
  void note_locked(Instant now, const CellId& row);
  void renew_lease(RemoteEntry& entry, Instant began) const;
  void end_flight(const Sent& sent);

  memory::TupleStore& tuples_;
  const regional::RegionState& region_;
  GlobalLedger& ledger_;
  RemoteCounts& remote_;
  const std::shared_ptr<CompletionQueue> completions_;
  const Regions& regions_;
  RowBudget budget_;
  PublishQueue queue_;
  PublishTrigger trigger_;
  std::vector<std::shared_ptr<Chunk>> chunks_;  // in flight
  size_t in_flight_ = 0;
  MonoTime overflow_at_{};
  std::map<CellId, MonoTime> locked_;  // rows locked by others, and when to retry them
  MonoTime paused_until_{};
  std::optional<MonoTime> failing_since_;
  MonoTime written_at_{};
  Stats stats_;
};

}  // namespace weir::global
