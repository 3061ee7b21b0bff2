// Runs the exchange with the other regions.
//
// Every process evaluates the publish rule on the tuples that it serves, and asks the bridge of its
// region to publish. One process of the region is the bridge: it publishes, imports, sends the
// heartbeat, and deletes expired rows. The others learn from its messages.
//
// Without an origin, or while it accepts no writes, this process is its own bridge, with a store in
// its own memory.
//
// Safe from any thread: runs are serialised, and stats() waits for no run.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "base/atomic.h"
#include "base/mutex.h"
#include "global/bridge_importer.h"
#include "global/bridge_publisher.h"
#include "global/completion_queue.h"
#include "global/global_state.h"
#include "global/held_bounds.h"
#include "global/publish_trigger.h"
#include "memory/publish_watch.h"
#include "memory/tuple_store.h"
#include "regional/region_state.h"
#include "weir/limiter.h"

namespace weir::global {

class RegionSync final : public regional::RegionCountsHandler {
 public:
  RegionSync(std::shared_ptr<memory::TupleStore> tuples,
             std::shared_ptr<regional::RegionState> region, std::shared_ptr<GlobalState> global,
             std::shared_ptr<memory::PublishWatch> watch, const SyncRules& rules);
  ~RegionSync() override;

  WorkReport run_once(Instant now, Flush flush);
  [[nodiscard]] SyncStats stats() const;
  void inspect(Instant now, const std::function<void(const SharedCell&)>& visit) const {
    const base::MutexLock lock(run_mutex_);
    trigger_.inspect(now, visit);
  }

  [[nodiscard]] regional::RegionTotals totals_of(const std::vector<RegionCount>& counts,
                                                 int64_t sequence) const override;
  void merge_regions(const memory::Tuple& tuple, const std::vector<RegionCount>& counts) override;

 private:
  // Which store holds what the region knows.
  enum class Mode : uint8_t { kNone, kOrigin, kAlone };
  static constexpr Millis kCleanEvery{10'000};

  void choose_store();
  void tell_of_survival(Instant now);
  void use_origin();
  void forget_published(const std::string& record);
  void use_own_store();
  void send_due(Instant now, Flush flush);
  void add_due(Instant now, const std::vector<regional::DueCell>& cells);
  void send_due_to_own_store(const std::vector<regional::DueCell>& cells);

  // Messages of the bridge.
  void notify(Instant now, std::vector<TupleChange> changes);
  void subscribe(BridgeStore& store);
  void on_message(Instant now, const BridgeMessage& message);
  [[nodiscard]] std::vector<bool> serves(std::span<const std::string_view> tuples) const;
  void evaluate_all_after_change();
  void merge(Instant now, const TupleChange& change);
  void make_all_stale();
  void continue_making_stale();

  void heartbeat(Instant now);
  void update_fleet(Instant now, const LedgerFleet& fleet);
  void clean(Instant now);
  void update_stats(Instant now);
  [[nodiscard]] bool clock_was_set(Instant now) const;
  void update_siblings(Instant now);
  // What this process reports of its region.
  struct Report {
    LedgerRegion region;
    bool usual = true;   // the bridge knows as much
    bool urgent = true;  // not only what is held
  };
  [[nodiscard]] uint64_t usual_ppm(uint32_t doublings) const;
  [[nodiscard]] Report report(Instant now);
  [[nodiscard]] bool skipped_live(Instant now, Nanos after) const;
  [[nodiscard]] bool may_miss_counts(Instant now) const;
  [[nodiscard]] bool misses_rows(Instant now) const;
  [[nodiscard]] bool origin_is_lost() const;
  template <typename Hold>
  void hold_all(Instant since, const Hold& hold);
  void hold_causes(Instant now);
  void hold_late(Instant now, const std::set<Tenant>& late, bool all);
  [[nodiscard]] Nanos write_lag(Instant now) const;
  [[nodiscard]] uint64_t diverging_siblings(Instant now) const;
  [[nodiscard]] NamespaceBound bounds(Instant now, const Tenant& tenant, const Unpublished& others,
                                      const HeldCauses& held) const;
  void update_bounds(Instant now, SyncStats& stats) const;
  [[nodiscard]] bool is_bridge(Instant now) const { return importer_.is_bridge(now.mono); }

  // Serialises runs. Held while a store is called, which does not wait for the reply: that goes to
  // the completion queue. Guards everything but the shared state, completions_ and stats_.
  mutable base::Mutex run_mutex_;

  const std::shared_ptr<memory::TupleStore> tuples_;
  const std::shared_ptr<regional::RegionState> region_;
  const std::shared_ptr<GlobalState> global_;
  const std::shared_ptr<memory::PublishWatch> watch_;
  const std::shared_ptr<CompletionQueue> completions_ = std::make_shared<CompletionQueue>();
  const SyncRules configured_rules_;
  Regions regions_;
  PublishTrigger trigger_;
  BridgeImporter importer_;
  BridgePublisher publisher_;

  struct RuleInputs {
    SyncRules rules;
    uint32_t count = 0;
    bool complete = false;
    std::map<Tenant, uint32_t> doublings;
    friend bool operator==(const RuleInputs&, const RuleInputs&) = default;
  };
  RuleInputs rule_inputs_;  // of the last evaluation of all tuples

  Mode mode_ = Mode::kNone;
  BridgeStore* store_ = nullptr;               // in use
  std::shared_ptr<RegionalOrigin> own_store_;  // while this process is its own bridge
  Subscription subscription_;                  // to its messages
  uint64_t subscriptions_ = 0;                 // messages of an earlier one are ignored
  std::optional<uint64_t> last_message_;       // its number
  uint64_t origin_epoch_ = 0;
  bool survivor_ = false;  // this process had counts before the origin changed

  PeriodicTask heartbeat_, cleaning_;
  MonoTime tells_survival_{};  // next
  Instant latest_{};           // a run that waited for the mutex brings an older time
  MonoTime started_{}, stats_updated_{}, imported_at_{};
  MonoTime not_bridge_at_{};      // the last time that this process was not the bridge
  size_t stale_at_ = ~size_t{0};  // the next slot whose tuple is made stale; beyond the end: none
  uint64_t rows_applied_ = 0, messages_missed_ = 0, deleted_ = 0, heartbeat_errors_ = 0;
  LedgerRegion reported_;      // in the last heartbeat
  MonoTime fleet_updated_{};   // start of the last heartbeat that succeeded; also a write
  MonoTime fleet_known_at_{};  // the same of the heartbeat whose reply this process knows
  uint32_t siblings_ = 0;      // the processes of the region, this one included
  // What a process that died had not sent to the origin is lost, until its windows have ended.
  MonoTime died_counts_until_{};
  // The most doublings of each namespace since this process has evicted tuples that still matter.
  std::map<Tenant, uint32_t> widest_doublings_;
  // What widened the bound, of each namespace in which this process has counted; and of the
  // namespaces that it does not know.
  std::map<Tenant, HeldCauses> held_;
  HeldCauses rest_held_;
  MonoTime complete_at_{};              // the region last knew all rows
  std::optional<Instant> missed_at_;    // misses_rows() was last true
  std::atomic<bool> no_memory_{false};  // for a count of another region, since the last run

  mutable base::Mutex stats_mutex_;
  SyncStats stats_ WEIR_GUARDED_BY(stats_mutex_);  // as of the last run
};

}  // namespace weir::global
