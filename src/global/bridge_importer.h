// The part of the bridge that brings the rows of all regions from the ledger to the origin, and
// tells the processes of the region.
//
// A round takes or renews the lease of the bridge, reads the feeds from the saved positions,
// applies the rows to the origin, and saves the new positions: only after every reply was checked,
// so that the next bridge repeats what this one may not have finished. Rows merge, so repeating
// does no harm.
//
// An origin that loses its data within a round loses rows of the round, and with them the lease, so
// that the positions are not saved. But a renewal takes the lease again, and so does a late call.
// So they replace only the state from which the round began.
//
// A region is read whole when its feed cannot be followed: at the start, in another epoch, and when
// a batch is missing. Each page says up to which batch its rows are complete; a lagging replica may
// have answered. The feed is followed from the earliest of these batches.
//
// If our own feed is shorter than it was, or began a new epoch, the ledger may have lost what we
// published. Then our position stays as it is until the publisher has written the rows of the last
// minute again, so that the next bridge finds the loss, too, if this one dies. A new bridge, or one
// whose lease had ended, learns from the records of the last minute how long our feed was. It may
// learn of a new epoch first, or from a full read: the records of an earlier epoch show the loss in
// any order.
//
// After the origin lost all its data, our own rows may have counts that it has not: nobody replays
// the counts of a process that ended. New counts would stay below our row, and so unpublished. So
// when the other processes have had the time to replay, what is missing is added to the departed
// component of each cell. Until then our feed has no saved position, so that the next bridge does
// it if this one dies.
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
#include "global/store_clock.h"
#include "weir/ledger.h"
#include "weir/limiter.h"
#include "weir/origin.h"

namespace weir::global {

// The region, and the name of this process as the holder of the lease.
struct BridgeIdentity {
  std::string region;
  std::string holder;
};

// Whether other processes use the same store.
enum class StoreUse : uint8_t { kShared, kPrivate };

class BridgeImporter {
 public:
  static constexpr Millis kLease{1000};
  // A bridge that has not reached the ledger for this long lets another process try.
  static constexpr Nanos kHandOverAfter = Millis(3000);
  static constexpr Nanos kCandidateEvery = Millis(300);  // while another process is the bridge
  static constexpr Nanos kRetry = Millis(500);
  // The processes of a region have replayed all their counts to an origin that lost them. What a
  // process replays later, and what was published of it, counts twice.
  static constexpr Nanos kReplayTime = Millis(10'000);

  // Called with each notice that the region must get.
  using Notify = std::function<void(Instant now, std::vector<TupleChange> changes)>;

  BridgeImporter(BridgeIdentity identity, std::shared_ptr<GlobalLedger> ledger,
                 std::shared_ptr<CompletionQueue> completions, Regions& regions, Notify notify,
                 uint64_t seed);

  // Begins anew with this store, which must outlive its use. `own` is the last batch of our own
  // feed that is known.
  void use(BridgeStore& store, StoreUse store_use, FeedPosition own);
  void run(Instant now, Nanos every, Flush flush);

  // By which the bridge works.
  [[nodiscard]] const StoreClock& clock() const { return clock_; }
  void note_ledger_time(WallTime wall, MonoTime began, MonoTime now) {
    clock_.note_ledger(wall, began, now);
  }
  // Whether this process is the bridge now.
  [[nodiscard]] bool is_bridge(MonoTime now) const { return now < granted_until_; }
  // Another process may take the lease at once.
  void release();
  // Whether it is not known yet which process is the bridge.
  [[nodiscard]] bool awaits_grant(MonoTime now) const {
    return !is_bridge(now) && (!refused_at_ || now - *refused_at_ >= kCandidateEvery);
  }

  // The last batch of our own feed that is known to be written; none: unknown.
  [[nodiscard]] FeedPosition own_position() const { return own_; }
  // Whether our region has no feed yet.
  [[nodiscard]] bool feed_is_missing() const { return feed_is_missing_ && own_.epoch == 0; }
  // This process has published a batch; `before` was the last one that it knew.
  void note_own_batch(FeedPosition before, FeedPosition batch);
  // And has applied its rows to the origin.
  void note_own_rows(FeedPosition before, FeedPosition batch);

  // All regions must be read again, as a check: the clock was set.
  void read_all_again();
  // The store may have lost counts: no saved position is valid.
  void discard_positions();

  struct Stats {
    uint64_t read = 0;       // rows
    uint64_t last_read = 0;  // in the last reply
    uint64_t invalid = 0;
    uint64_t errors = 0;
    uint64_t no_room = 0;      // tuples for which the store had no space
    WallTime no_room_until{};  // such a tuple is missing until then
    uint64_t full_reads = 0;   // of one region
    uint64_t lost = 0;         // times that the ledger lost a part of our own feed
    // Our region had rows before this process published any: a former process may have died with
    // unpublished counts, in windows that matter until then.
    WallTime former_rows_until{};
    Nanos full_read_took{0};
    MonoTime imported_at{};  // when the last successful read of the feeds was requested
    MonoTime full_read_ended{};
  };
  [[nodiscard]] const Stats& stats() const { return stats_; }
  // Whether the publisher has read the records of the last minute, and what it found: the last
  // batch, and whether the feed began a new epoch meanwhile.
  [[nodiscard]] bool knows_records() const { return knows_records_; }
  void note_records(FeedPosition last, bool several_epochs);
  // Whether their rows must be published again, and that they were. Without any, our feed stays
  // behind until the next batch.
  [[nodiscard]] bool repeats_records() const { return loss_ == Loss::kFound; }
  void note_records_published(bool any) {
    if (loss_ == Loss::kFound) loss_ = any ? Loss::kNone : Loss::kRepaired;
  }

 private:
  // A read of all rows of one region.
  struct FullRead {
    std::string region;
    FeedPosition wanted;  // the head of its feed when the read was planned
    uint64_t state_id = 0;
    LedgerPosition next;
    // All pages so far have the rows up to there; none: no page was read.
    std::optional<FeedPosition> complete_to{};
    MonoTime began{};
    std::vector<TupleUpdate> lost{};  // counts of our own rows that the origin does not have
  };
  // A full read that ended: the next round saves it.
  struct Completed {
    FeedPosition at;  // all rows up to there were read
    uint64_t state_id = 0;
  };
  // Adds to the origin what it lost. Our own feed has no position until it has ended.
  struct Restoration {
    Completed read;  // of our own region
    MonoTime at{};
    std::optional<std::vector<uint64_t>> survivors{};
    std::vector<TupleUpdate> updates;
    size_t done = 0;
  };
  // One round: what was read, and the state to save if all of it is applied.
  struct Round {
    BridgeState state;
    std::string before;                          // the state that it replaces, encoded
    std::map<std::string, Completed> completed;  // by region
    ChangeSet changes;
    bool complete = false;  // afterwards all rows are at the origin
    bool follows_eviction = false;
    bool more = false;
    MonoTime began{};
    FeedPosition own{};  // the last batch of our own feed when the feeds were requested
  };

  // Of a part of our own feed.
  enum class Loss : uint8_t { kNone, kFound, kRepaired };

  void acquire(Instant now);
  void renew_lease(Instant now);
  void note_grant(MonoTime began, Instant now, const BridgeGrant& grant);
  [[nodiscard]] bool has_seen(const BridgeGrant& grant) const;
  void on_grant(Instant now, const BridgeGrant& grant);
  void read_feeds(Instant now);
  void on_feeds(Instant now, const FeedChanges& feeds);
  void check_own_feed(FeedPosition head);
  void note_own_position(FeedPosition at);
  void find_loss();
  void follow(Instant now, const RegionFeed& head, const FeedChanges& feeds);
  [[nodiscard]] bool take_batches(Instant now, const RegionFeed& head, const FeedChanges& feeds,
                                  FeedPosition& at);
  void skip_own_batches(FeedPosition& at);
  void record_own_rows(Instant now);
  void apply_round(Instant now);
  void finish_round(Instant now);
  void save_round(Instant now);
  void end_round(Instant now, bool failed);
  void plan_full_reads(Instant now, const FeedChanges& feeds);
  void keep_or_renew(Instant now, const std::optional<BridgeState>& saved, uint64_t evicted);
  void read_next_page(Instant now);
  void on_page(Instant now, LedgerPage page);
  void end_full_read(Instant now);
  void continue_restoration(Instant now);
  void read_survivors(Instant now);
  // Applies rows to the origin, then calls `done` with whether all replies were good.
  void apply(Instant now, PeriodicTask& task, std::vector<TupleChange> changes,
             std::function<void(Instant, bool)> done);
  void note_lost_counts(Instant now, const std::vector<TupleUpdate>& updates,
                        const std::vector<TupleCounts>& tuples);
  void evaluate(Instant now, const std::vector<TupleUpdate>& updates,
                const std::vector<TupleCounts>& tuples);
  void note_no_room(const std::vector<TupleUpdate>& updates,
                    const std::vector<TupleCounts>& tuples);
  void add_rows(Instant now, const std::vector<LedgerRow>& rows, ChangeSet& changes);
  [[nodiscard]] uint64_t random();
  [[nodiscard]] uint64_t next_id();

  const BridgeIdentity identity_;
  const std::shared_ptr<GlobalLedger> ledger_;
  Regions& regions_;
  const Notify notify_;
  BridgeStore* store_ = nullptr;
  StoreUse store_use_ = StoreUse::kShared;
  uint64_t random_;

  StoreClock clock_;
  PeriodicTask round_task_, page_task_, renewal_;
  MonoTime granted_until_{};
  std::optional<MonoTime> refused_at_;  // another process had the lease
  Nanos every_{0};
  Round round_;
  std::optional<FullRead> full_read_;
  std::map<std::string, FeedPosition> wanted_;        // regions to read whole, and their heads
  std::map<std::string, Completed> completed_;        // by region
  std::map<FeedPosition, FeedPosition> own_batches_;  // published here: the batch after another
  FeedPosition own_{};
  bool feed_is_missing_ = false;
  uint64_t state_id_ = 0;  // of the state that this process saved last; 0: none
  uint64_t seen_id_ = 0;   // of the last state that was read; 0: none
  // The positions of the state with this id, and of all earlier ones, are not valid; 0: none.
  uint64_t invalid_id_ = 0;
  bool discards_next_ = false;  // the state that is read next is not valid
  MonoTime renewed_at_{};       // when all positions were last discarded after an eviction
  MonoTime checked_at_{};       // when all regions were last read whole as a check
  bool check_all_ = false;
  std::optional<Restoration> restoration_;
  bool own_is_unread_ = false;      // our own feed has no position
  bool emptied_ = false;            // as in the last state
  bool reads_former_rows_ = false;  // the next read of our own rows is of rows written before
  Loss loss_ = Loss::kNone;
  bool knows_records_ = false;  // own_ is not older than the records at the origin
  std::optional<MonoTime> failing_since_;
  Stats stats_;
};

}  // namespace weir::global
