// The ledger in memory, with a log: records every commit with its time and reports it to an
// observer. It has its own clock. A reader can get the state of an earlier time, and a replica
// without the last commits can replace it.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ledgers/memory_ledger.h"
#include "sim/stores/row_id.h"
#include "sim/timeline.h"
#include "weir/origin.h"

namespace weir::sim {

// A process, as the ledger identifies it.
struct LedgerUser {
  int region = 0;
  int node = 0;
  int process = 0;
  std::string name;  // of the region
};

// What one process wrote in one transaction.
struct Committed {
  const LedgerUser& by;
  const std::vector<LedgerRow>& rows;
  FeedPosition at{};  // of the batch
};

// A batch to publish, as GlobalLedger::publish() takes it.
struct Batch {
  std::string region;
  FeedPosition known{};
  std::vector<LedgerRow> rows;
};

// Belongs to the timeline.
class WatchedLedger {
 public:
  using Observer = std::function<void(const Committed&)>;
  WatchedLedger(const Clock& world, SyncRules rules, Observer observer)
      : world_(world),
        rules_(rules),
        clock_(world),
        store_(clock_),
        observer_(std::move(observer)) {
    store_.set_rules(rules);
  }

  // The store as another process sees it.
  [[nodiscard]] std::shared_ptr<GlobalLedger> another_connection() {
    return store_.another_client();
  }
  [[nodiscard]] const SyncRules& rules() const { return rules_; }
  // The region has used the ledger before.
  void register_region(const std::string& region);

  void commit(const LedgerUser& by, const Batch& batch, const PublishReply& reply);

  // Remembers no single row: for a large fleet without checkers. Then the counts and leases below
  // are unknown, and counters() has only those of feeds.
  void forget_rows() { remembers_rows_ = false; }
  // Keeps the states of this much time, for the two functions that follow. Without it nothing is
  // kept, because a copy of a large ledger is expensive.
  void keep_states(Millis how_long);
  // The state of an earlier time, by the present clock: a lagging replica.
  [[nodiscard]] std::shared_ptr<ledgers::MemoryLedger> replica_at(MonoTime then);
  // A replica without the later commits replaces the store; its clock is off by this much.
  void fail_over(MonoTime as_of, Millis skew);

  void set_skew(Millis skew) { clock_.set_skew(skew); }
  // Deletes the next batches of a region's feed as soon as they are committed, and keeps their
  // rows: every reader finds a gap.
  void lose_next_batches(const std::string& region, uint64_t count) { losing_[region] += count; }

  // The largest count ever committed, even if it was lost since; and the present count.
  [[nodiscard]] Count max_committed(const RowId& id) const { return find(max_committed_, id); }
  [[nodiscard]] Count current(const RowId& id) const { return find(current_, id); }
  [[nodiscard]] const std::map<RowId, Count>& rows_committed() const { return max_committed_; }
  [[nodiscard]] const std::map<RowId, Count>& current_rows() const { return current_; }
  // The end of a region's lease on a tuple.
  [[nodiscard]] WallTime leased_until(const std::string& tuple, const std::string& region) const;

  struct Counters {
    uint64_t crossed = 0;    // two regions took their first lease on a tuple in one round
    uint64_t renewed = 0;    // a lease ended and was renewed
    uint64_t repeated = 0;   // written again with the same count
    uint64_t lost = 0;       // rows, by a failover
    uint64_t repaired = 0;   // of those: written again
    uint64_t epochs = 0;     // of feeds that began again
    uint64_t feed_gaps = 0;  // batches that were deleted
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  using Snapshot = ledgers::MemoryLedger::Snapshot;
  struct State {
    MonoTime since{};
    std::shared_ptr<const Snapshot> contents;
  };
  struct Lease {
    WallTime until{};
    MonoTime since{};
  };

  void apply(const std::vector<LedgerRow>& rows, MonoTime at);
  void count_events(const Batch& batch);
  void keep_state();
  [[nodiscard]] std::shared_ptr<const Snapshot> state_at(MonoTime then) const;
  template <typename Map>
  static Count find(const Map& map, const RowId& id) {
    const auto found = map.find(id);
    return found == map.end() ? 0 : found->second;
  }

  class StoreClock final : public Clock {
   public:
    explicit StoreClock(const Clock& world) : world_(world) {}
    [[nodiscard]] Instant now() const override {
      Instant now = world_.now();
      now.wall += skew_;
      return now;
    }
    void set_skew(Millis skew) { skew_ = skew; }

   private:
    const Clock& world_;
    Millis skew_{0};
  };

  const Clock& world_;
  const SyncRules rules_;
  StoreClock clock_;
  ledgers::MemoryLedger store_;
  Observer observer_;
  bool remembers_rows_ = true;
  std::optional<Millis> kept_;  // none: no state is kept
  std::deque<State> states_;    // in order; the first may be older than `kept_`
  // The last replica that was returned, and its state.
  std::shared_ptr<ledgers::MemoryLedger> replica_;
  std::shared_ptr<const Snapshot> replica_state_;
  std::map<RowId, Count> max_committed_, current_, lost_;
  std::map<std::pair<std::string, std::string>, Lease> leases_;  // tuple, region
  std::map<std::string, FeedPosition> heads_;                    // of feeds, by region
  std::map<std::string, uint64_t> losing_;                       // batches, by region
  Counters counters_;
};

}  // namespace weir::sim
