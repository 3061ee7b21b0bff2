// The turns of a process that shares its counts with other regions: hear who is there, look at
// what changed, tell what is due, hear what others told, and clean up.
//
// Safe from any thread: the turns of run_once() follow one another, and stats() waits for none.

#pragma once

#include <memory>
#include <optional>

#include "base/atomic.h"
#include "base/mutex.h"
#include "limiter/importer.h"
#include "limiter/inbox.h"
#include "limiter/publisher.h"
#include "limiter/store.h"
#include "weir/limiter.h"

namespace weir::limiter {

class RegionSync {
 public:
  RegionSync(std::shared_ptr<Store> store, const SyncRules& rules);

  WorkReport run_once(Instant now, Flush flush);
  [[nodiscard]] SyncStats stats() const;
  void inspect(Instant now, const std::function<void(const SharedCell&)>& visit) const {
    const base::MutexLock lock(turn_);
    publisher_.trigger().inspect(now, visit);
  }

 private:
  // Something that is done again and again, one at a time.
  struct Turn {
    bool hears = false;  // of what others counted: one that fails may have missed something
    MonoTime next{};
    MonoTime began{};
    bool under_way = false;
    uint64_t number = 0;  // of the one under way: an answer to another is too late
  };

  [[nodiscard]] bool is_due(Instant now, Turn& turn);
  void plan(Turn& turn, Instant now, Nanos every);
  template <typename Answer, typename Take>
  auto answer_to(Turn& turn, Take take);

  void heartbeat(Instant now);
  void hear_fleet(Instant now, const LedgerFleet& fleet);
  void import_changes(Instant now);
  [[nodiscard]] LedgerCursor next_read(Instant now) const;
  void hear_changes(Instant now, const LedgerChanges& changes, LookBack look_back);
  void read_everything(Instant now);
  void clean(Instant now);
  void sum_up(Instant now);
  [[nodiscard]] bool was_set(Instant now) const;
  void watch_siblings();
  [[nodiscard]] uint64_t hidden(Instant now) const;
  [[nodiscard]] bool knows_too_little(Instant now) const;
  [[nodiscard]] Nanos write_lag(Instant now) const;
  [[nodiscard]] uint64_t nodes_apart(Instant now) const;
  [[nodiscard]] double bound(Instant now) const;

  // One turn at a time. Held while the ledger is asked, which does not wait for the answer: that
  // goes to the inbox. Guards everything but store_, inbox_ and stats_.
  mutable base::Mutex turn_;

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<CompletionQueue> completions_ = std::make_shared<CompletionQueue>();
  const SyncRules wished_;
  Regions regions_;
  Publisher publisher_;
  Importer importer_;
  uint64_t chance_;

  Turn heartbeat_, publishing_, cleaning_;
  Turn importing_{.hears = true}, reading_{.hears = true};
  std::optional<LedgerCursor> cursor_;
  // Up to where the last read came that looked far back for what commits late, and when one does
  // again: from there, so that nothing slips between two of them.
  LedgerCursor looked_back_from_;
  MonoTime look_back_{};
  std::optional<LedgerCursor> rest_;  // of an answer that comes in parts
  MonoTime import_began_{};           // when the first part was asked for
  LedgerPosition place_;
  Instant latest_{};  // a turn that waited for another brings an older time
  MonoTime started_{}, summed_up_{}, received_{}, full_began_{}, full_ended_{};
  Nanos full_took_{0};
  uint64_t full_reads_ = 0, import_errors_ = 0, last_import_ = 0, invalid_ = 0, deleted_ = 0;
  bool reads_everything_ = false;
  bool import_failed_ = false;
  bool may_have_missed_ = false;  // something, until everything is read that was written by now
  bool missed_before_ = false;    // something, until the read of everything under way ends
  uint64_t said_hidden_ = 0;      // when this process last attended
  MonoTime fleet_received_{};  // when it asked for what the others last said; also its last write
  uint32_t siblings_ = 0;      // the processes of the region, this one included
  // Of a process that has died, the counts that it held back are at the origin at best, and nobody
  // holds them against the publish rule. So it is when this one starts, too: one has died before.
  bool one_died_ = true;  // since everything was last read
  WallTime died_matters_until_{};

  mutable base::Mutex mutex_;
  SyncStats stats_ WEIR_GUARDED_BY(mutex_);  // as of the last turn
};

}  // namespace weir::limiter
