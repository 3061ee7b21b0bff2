// The part of the bridge that brings the rows of all regions from the ledger to the origin, and
// tells the processes of the region.
//
// A round takes or renews the lease of the bridge, reads the feeds from where the saved state says,
// applies the rows to the origin, and saves how far it got: only after every reply was checked, so
// that the next bridge repeats what this one may not have finished. Rows merge, so repeating does
// no harm.
//
// A region is read whole when its feed cannot be followed: at the start, in another epoch, and when
// a batch is missing.
//
// Only from the thread that runs the sync.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "global/bridge_codec.h"
#include "global/completion_queue.h"
#include "global/periodic_task.h"
#include "global/regions.h"
#include "weir/ledger.h"
#include "weir/origin.h"

namespace weir::global {

// The store of the bridge that is in use, and the name of this process there.
struct BridgeIdentity {
  std::string region;
  std::string holder;
};

class BridgeImporter {
 public:
  static constexpr Millis kLease{1000};

  // Called with each notice that the region must get.
  using Notify = std::function<void(Instant now, std::vector<TupleChange> changes)>;

  BridgeImporter(BridgeIdentity identity, std::shared_ptr<GlobalLedger> ledger,
                 std::shared_ptr<CompletionQueue> completions, Regions& regions, Notify notify,
                 uint64_t seed);

  // Begins anew with this store, which must outlive its use. `own` is the last batch of our own
  // feed that is known.
  void use(BridgeStore& store, FeedPosition own);
  void run(Instant now, Nanos every);

  // Whether this process is the bridge now.
  [[nodiscard]] bool is_bridge(MonoTime now) const { return now < granted_until_; }
  // Another process may take the lease at once.
  void release();

  // The position of our own feed up to which the origin has our rows; none: unknown.
  [[nodiscard]] FeedPosition own_position() const;
  // This process has published the batch and applied its rows to the origin.
  void note_own_batch(FeedPosition before, FeedPosition batch);

  // All regions must be read again: the clock was set, or counts were dropped.
  void read_all_again();

  struct Stats {
    uint64_t read = 0;       // rows
    uint64_t last_read = 0;  // in the last reply
    uint64_t invalid = 0;
    uint64_t errors = 0;
    uint64_t dropped = 0;     // tuples for which the store had no space
    uint64_t full_reads = 0;  // of one region
    uint64_t lost = 0;        // times that the ledger lost a part of our own feed
    Nanos full_read_took{0};
    MonoTime imported_at{};  // when the last successful read of the feeds was requested
    MonoTime full_read_ended{};
  };
  [[nodiscard]] const Stats& stats() const { return stats_; }
  // Whether our own feed was found shorter than it was, since the last call.
  [[nodiscard]] bool take_lost() { return std::exchange(lost_, false); }

 private:
  // A read of all rows of one region.
  struct FullRead {
    std::string region;
    FeedPosition head;  // of its feed when the read began
    uint64_t state_id = 0;
    LedgerPosition next;
    MonoTime began{};
  };
  // One round: what was read, and the state to save if all of it is applied.
  struct Round {
    BridgeState state;
    ChangeSet changes;
    bool complete = false;  // afterwards all rows are at the origin
    bool more = false;
    MonoTime began{};
  };

  void acquire(Instant now);
  void renew_lease(Instant now);
  void on_grant(Instant now, const BridgeGrant& grant);
  void read_feeds(Instant now);
  void on_feeds(Instant now, const FeedChanges& feeds);
  void follow(Instant now, const RegionFeed& head, const FeedChanges& feeds);
  void finish_round(Instant now);
  void end_round(Instant now, bool failed);
  void plan_full_reads(Instant now, const FeedChanges& feeds);
  void keep_or_renew(Instant now, const BridgeGrant& grant);
  void read_next_page(Instant now);
  void on_page(Instant now, LedgerPage page);
  // Applies rows to the origin, then calls `done` with whether all replies were good.
  void apply(Instant now, PeriodicTask& task, std::vector<TupleChange> changes,
             std::function<void(Instant, bool)> done);
  void evaluate(Instant now, const std::vector<TupleUpdate>& updates,
                const std::vector<TupleCounts>& tuples);
  void add_rows(Instant now, const std::vector<LedgerRow>& rows, ChangeSet& changes);
  [[nodiscard]] uint64_t random();

  const BridgeIdentity identity_;
  const std::shared_ptr<GlobalLedger> ledger_;
  Regions& regions_;
  const Notify notify_;
  BridgeStore* store_ = nullptr;
  uint64_t random_;

  PeriodicTask round_task_, page_task_, lease_task_;
  MonoTime granted_until_{};
  Nanos every_{0};
  Round round_;
  std::optional<FullRead> full_read_;
  std::map<std::string, FeedPosition> wanted_;  // regions to read whole, and their heads
  // Full reads that ended: the next round saves them.
  struct Completed {
    FeedPosition head;
    uint64_t state_id = 0;
  };
  std::map<std::string, Completed> completed_;
  std::map<FeedPosition, FeedPosition> own_batches_;  // published here: the batch after another
  FeedPosition own_{};
  uint64_t state_id_ = 0;    // of the state that this process saved last; 0: none
  std::string saved_state_;  // its bytes
  MonoTime renewed_at_{};  // when all positions were last discarded
  MonoTime checked_at_{};  // when all regions were last read whole as a check
  bool check_all_ = false;
  bool lost_ = false;
  Stats stats_;
};

}  // namespace weir::global
