// The state that this process shares with other regions: the ledger, the counts known of it, and
// whether they are too old. Exists only with a ledger.
//
// Safe from any thread.

#pragma once

#include <algorithm>
#include <atomic>
#include <memory>

#include "global/remote_counts.h"
#include "memory/tuple_store.h"
#include "weir/ledger.h"
#include "weir/options.h"

namespace weir::global {

struct GlobalState {
  GlobalState(const Options& options, memory::TupleStore& tuples)
      : ledger(options.ledger),
        remote(options.region, max_imported(options, tuples.plan), &tuples.budget) {}

  // Fixed after construction.
  const std::shared_ptr<GlobalLedger> ledger;
  // Written by the parts of RegionSync; the Decider reads totals.
  RemoteCounts remote;
  // Written by RegionSync: for too long nothing was imported or accepted. Independent: relaxed.
  std::atomic<bool> behind{false};

 private:
  [[nodiscard]] static size_t max_imported(const Options& options, const memory::MemoryPlan& plan) {
    constexpr size_t kMinimum = 1024;
    return options.remote_tuples > 0 ? options.remote_tuples
                                     : std::max(kMinimum, plan.capacity / 4);
  }
};

}  // namespace weir::global
