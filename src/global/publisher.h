// Telling other regions what this one counted.
//
// In each round what waits is written together, in pieces. What is written is the settled count of
// the whole region, never what was heard from others.
//
// Everything from the thread that runs the sharing, but for replies, which it finds in its inbox.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "global/completion_queue.h"
#include "global/publish_trigger.h"
#include "global/publish_queue.h"
#include "global/regions.h"
#include "global/row_budget.h"
#include "decide/store.h"
#include "weir/limiter.h"

namespace weir::limiter {

class Publisher {
 public:
  Publisher(std::shared_ptr<Store> store, std::shared_ptr<CompletionQueue> completions,
            const Regions& regions)
      : store_(std::move(store)),
        completions_(std::move(completions)),
        regions_(regions),
        queue_(store_, completions_, regions, budget_),
        trigger_(store_, regions, budget_, queue_) {}

  [[nodiscard]] PublishTrigger& trigger() { return trigger_; }
  [[nodiscard]] const PublishTrigger& trigger() const { return trigger_; }

  // Writes what waits; all of it without regard to whose turn it is, at the end of a process.
  void publish(Instant now, Flush flush);
  // Has everything written that is not, at the end of a process.
  void enqueue_all(Instant now);

  struct Stats {
    std::array<uint64_t, kPublishKinds> rows{};  // committed, by rule
    uint64_t errors = 0;
    uint64_t dropped = 0;   // rows that the ledger will not take
    uint64_t left_out = 0;  // rows that there was no room for, not even to wait
  };
  [[nodiscard]] const Stats& stats() const { return stats_; }
  [[nodiscard]] size_t waiting() const { return queue_.size() + in_flight_; }
  [[nodiscard]] Nanos lag(MonoTime now) const;
  [[nodiscard]] const RowBudget& budget() const { return budget_; }
  // From when on nothing could be written; none: the last chunk was.
  [[nodiscard]] std::optional<MonoTime> failing_since() const { return failing_since_; }
  // When the last chunk was sent that was written.
  [[nodiscard]] MonoTime written_at() const { return written_at_; }
  // Whether rows were left out a short while ago: then nothing bounds what is hidden.
  [[nodiscard]] bool leaves_out(MonoTime now) const {
    const MonoTime last = std::max(left_out_at_, trigger_.left_out().at);
    return last != MonoTime{} && now - last < Millis(10'000);
  }

 private:
  struct Sent;
  struct Chunk;
  // Why a chunk was not written.
  enum class Blame : uint8_t {
    kNoRow,
    kHeldRow,  // somebody else holds one of them
    kBadRow,   // the ledger will never take one of them
  };
  static constexpr size_t kChunkRows = 500;
  static constexpr size_t kMostInFlight = 8 * kChunkRows;
  static constexpr size_t kMostQueued = 20'000;
  static constexpr Millis kDeadline{5000};
  // A row that somebody else holds is tried again after this, by itself. Where more than a few are
  // held the ledger is to blame, and nothing is tried before.
  static constexpr Millis kHeldPause{1000};
  static constexpr size_t kMostHeld = 16;

  [[nodiscard]] double rows_per_second() const;
  void take(const PublishQueue::Candidate& candidate, Chunk& chunk);
  void drop_beyond(Instant now, size_t most);
  void send(Instant now, const std::shared_ptr<Chunk>& chunk);
  void commit(Instant now, Chunk& chunk);
  void fail(Instant now, Chunk& chunk, Blame blame);
  void send_halves(Instant now, const Chunk& chunk);
  void hold(Instant now, const CellId& row);
  void hold_lease(RemoteEntry& entry, Instant began) const;
  void land(const Sent& sent);

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<CompletionQueue> completions_;
  const Regions& regions_;
  RowBudget budget_;
  PublishQueue queue_;
  PublishTrigger trigger_;
  std::vector<std::shared_ptr<Chunk>> chunks_;  // under way
  size_t in_flight_ = 0;
  MonoTime left_out_at_{};
  std::map<CellId, MonoTime> held_;  // rows that others held, and when to try them again
  MonoTime held_off_until_{};
  std::optional<MonoTime> failing_since_;
  MonoTime written_at_{};
  Stats stats_;
};

}  // namespace weir::limiter
