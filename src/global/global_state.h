// What requests and the sync with other regions share: the ledger, the known counts of other
// regions, and whether they are too old. Exists only with a ledger.
//
// Safe from any thread.

#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "global/shared_tuples.h"
#include "memory/tuple_store.h"
#include "weir/ledger.h"
#include "weir/options.h"
#include "weir/origin.h"

namespace weir::global {

struct GlobalState {
  GlobalState(const Options& options, memory::TupleStore& tuples)
      : ledger(options.ledger),
        cleans(options.clean_ledger),
        max_private_tuples(max_private(options, tuples.plan)),
        shared(options.region, &tuples.budget, tuples.uncertain) {}

  // The counts of a tuple that is not in the table. Without an origin, or while it is lost, this
  // process keeps them itself; else the origin has them.
  [[nodiscard]] LedgerTotals totals(const memory::TupleKey& key, int64_t sequence) const {
    LedgerTotals totals = shared.totals(key, sequence);
    if (const auto stored = stored_counts(key)) {
      const LedgerTotals others = totals_of(*stored, shared.region(), sequence);
      const auto raise = [](LedgerCounts& known, const LedgerCounts& other) {
        known.foreign = std::max(known.foreign, other.foreign);
        known.own_region = std::max(known.own_region, other.own_region);
      };
      raise(totals.current, others.current);
      raise(totals.last, others.last);
    }
    return totals;
  }

  // A tuple was created: it gets the counts that this process keeps itself. The caller holds an
  // epoch guard.
  void merge_stored(WallTime now, const memory::Tuple& tuple, const memory::TupleKey& key) {
    if (const auto stored = stored_counts(key)) (void)shared.merge(now, tuple, key, *stored);
  }

  [[nodiscard]] std::shared_ptr<RegionalOrigin> own_store() const {
    const base::MutexLock lock(mutex_);
    return own_store_;
  }
  void set_own_store(std::shared_ptr<RegionalOrigin> store) {
    const base::MutexLock lock(mutex_);
    own_store_ = std::move(store);
  }

  // Fixed after construction.
  const std::shared_ptr<GlobalLedger> ledger;
  const bool cleans;  // deletes expired rows
  const size_t max_private_tuples;
  SharedTuples shared;
  // Written by RegionSync: for too long nothing was imported or accepted. Independent: relaxed.
  std::atomic<bool> behind{false};

 private:
  [[nodiscard]] std::optional<std::vector<RegionCount>> stored_counts(
      const memory::TupleKey& key) const {
    const std::shared_ptr<RegionalOrigin> store = own_store();
    if (store == nullptr) return std::nullopt;
    std::vector<RegionCount> counts;
    // It is in memory: the reply comes before the call returns.
    store->bridge_store()->read_tuples({{.tuple = key.encoded(), .sequences = {}}},
                                       [&](Result<std::vector<TupleCounts>> tuples) {
                                         if (!tuples || tuples->empty()) return;
                                         counts = std::move(tuples.value()[0].regions);
                                       });
    return counts;
  }

  [[nodiscard]] static size_t max_private(const Options& options, const memory::MemoryPlan& plan) {
    constexpr size_t kMinimum = 1024;
    return options.remote_tuples > 0 ? options.remote_tuples
                                     : std::max(kMinimum, plan.capacity / 4);
  }

  mutable base::Mutex mutex_;
  // The store of a process that is its own bridge; none: the origin has the counts.
  std::shared_ptr<RegionalOrigin> own_store_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::global
