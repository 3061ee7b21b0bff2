// Runs the exchange with the other regions: heartbeat, evaluation of the publish rule, publishing,
// importing, and deletion of expired rows.
//
// Safe from any thread: runs are serialised, and stats() waits for no run.

#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/atomic.h"
#include "base/mutex.h"
#include "global/completion_queue.h"
#include "global/global_state.h"
#include "global/importer.h"
#include "global/publisher.h"
#include "memory/publish_watch.h"
#include "memory/tuple_store.h"
#include "regional/region_state.h"
#include "weir/limiter.h"

namespace weir::global {

class RegionSync {
 public:
  RegionSync(std::shared_ptr<memory::TupleStore> tuples,
             std::shared_ptr<regional::RegionState> region, std::shared_ptr<GlobalState> global,
             std::shared_ptr<memory::PublishWatch> watch, const SyncRules& rules);

  WorkReport run_once(Instant now, Flush flush);
  [[nodiscard]] SyncStats stats() const;
  void inspect(Instant now, const std::function<void(const SharedCell&)>& visit) const {
    const base::MutexLock lock(run_mutex_);
    publisher_.trigger().inspect(now, visit);
  }

 private:
  // A call to the ledger that is repeated, one at a time.
  struct PeriodicTask {
    bool imports = false;  // if it fails, changes of other regions may have been missed
    MonoTime next{};
    MonoTime began{};
    bool in_flight = false;
    uint64_t number = 0;  // of the call in flight: a reply to another one is too late
  };

  [[nodiscard]] bool is_due(Instant now, PeriodicTask& task);
  void schedule_next(PeriodicTask& task, Instant now, Nanos every);
  template <typename Answer, typename Handle>
  auto reply_for(PeriodicTask& task, Handle handle);

  void heartbeat(Instant now);
  void update_fleet(const LedgerFleet& fleet);
  void import_changes(Instant now);
  [[nodiscard]] LedgerCursor next_read(Instant now) const;
  void on_changes(Instant now, const LedgerChanges& changes, LookBack look_back);
  void read_next_page(Instant now);
  void on_page(Instant now, const Result<LedgerPage>& page);
  void clean(Instant now);
  void update_stats(Instant now);
  [[nodiscard]] bool clock_was_set(Instant now) const;
  void update_siblings();
  [[nodiscard]] uint64_t unpublished_ppm(Instant now) const;
  [[nodiscard]] bool may_miss_counts(Instant now) const;
  [[nodiscard]] Nanos write_lag(Instant now) const;
  [[nodiscard]] uint64_t diverging_siblings(Instant now) const;
  [[nodiscard]] double bound(Instant now) const;

  // Serialises runs. Held while the ledger is called, which does not wait for the reply: that goes
  // to the completion queue. Guards everything but the shared state, completions_ and stats_.
  mutable base::Mutex run_mutex_;

  const std::shared_ptr<memory::TupleStore> tuples_;
  const std::shared_ptr<regional::RegionState> region_;
  const std::shared_ptr<GlobalState> global_;
  const std::shared_ptr<memory::PublishWatch> watch_;
  const std::shared_ptr<CompletionQueue> completions_ = std::make_shared<CompletionQueue>();
  const SyncRules configured_rules_;
  Regions regions_;
  Publisher publisher_;
  Importer importer_;
  uint64_t jitter_;  // state of the random numbers

  PeriodicTask heartbeat_, publishing_, cleaning_;
  PeriodicTask importing_{.imports = true}, full_reading_{.imports = true};
  std::optional<LedgerCursor> cursor_;
  // Where the last long look-back ended, and when the next one is due. It begins there, so that no
  // late commit falls between two of them.
  LedgerCursor looked_back_from_;
  MonoTime next_look_back_{};
  std::optional<LedgerCursor> remainder_;  // of an answer in several parts
  MonoTime import_began_{};                // when the first part was requested
  LedgerPosition page_;
  Instant latest_{};  // a run that waited for the mutex brings an older time
  MonoTime started_{}, stats_updated_{}, imported_at_{}, full_read_began_{}, full_read_ended_{};
  Nanos full_read_took_{0};
  uint64_t full_reads_ = 0, import_errors_ = 0, last_import_ = 0, invalid_ = 0, deleted_ = 0;
  bool full_read_due_ = false;
  bool import_failed_ = false;
  bool may_have_missed_ = false;       // changes written before now, until a full read covers them
  bool missed_before_ = false;         // the same, until the full read in progress ends
  uint64_t reported_unpublished_ = 0;  // in the last heartbeat
  MonoTime fleet_updated_{};           // start of the last heartbeat that succeeded; also a write
  uint32_t siblings_ = 0;              // the processes of the region, this one included
  // The unpublished counts of a process that died are at best at the origin, and no process
  // evaluates them. True at the start: a process may have died before.
  bool node_died_ = true;  // since the last full read
  WallTime died_counts_until_{};

  mutable base::Mutex stats_mutex_;
  SyncStats stats_ WEIR_GUARDED_BY(stats_mutex_);  // as of the last run
};

}  // namespace weir::global
