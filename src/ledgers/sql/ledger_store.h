// A ledger in a store that answers while the caller waits; ThreadedLedger makes a port of it.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ledgers/sql/ledger_address.h"
#include "telemetry/ledger_metrics.h"
#include "weir/clock.h"
#include "weir/ledger.h"

namespace weir::ledgers {

// Who counts for a region, as the ledger knows it. A holder that is alive raises `until` again and
// again.
struct RegionHold {
  std::string holder;
  int64_t until = 0;  // ms, by the store's clock
  friend bool operator==(const RegionHold&, const RegionHold&) = default;
};

// As GlobalLedger, in the same words. One thread at a time.
class LedgerStore {
 public:
  virtual ~LedgerStore() = default;

  [[nodiscard]] virtual Result<size_t> publish(const LedgerNews& news) = 0;
  [[nodiscard]] virtual Result<LedgerChanges> changes_since(LedgerCursor cursor) = 0;
  [[nodiscard]] virtual Result<LedgerPage> read_page(const LedgerPosition& place) = 0;
  [[nodiscard]] virtual Result<LedgerFleet> heartbeat(const LedgerRegion& self,
                                                      const SyncRules& rules) = 0;
  [[nodiscard]] virtual Result<LedgerCleaning> clean(size_t most) = 0;

  // Does once all that the calls above do, with rows of its own, and undoes it: whether the store
  // has all tables and lets the user do what is needed.
  [[nodiscard]] virtual Result<WallTime> rehearse() = 0;

  // Holds a region for `holder` if nobody does: for kRegionHeld from now on. Processes that share
  // their counts hold it under one name. `dead` is a hold that is over whatever the clock says.
  // Returns who holds it then.
  [[nodiscard]] virtual Result<RegionHold> hold_region(const std::string& region,
                                                       const std::string& holder,
                                                       const RegionHold& dead) = 0;
  // Ends the hold, if it is the holder's.
  virtual void release_region(const std::string& region, const std::string& holder) = 0;

  // Makes the tables that are missing; what is there stays. The version that stands then.
  [[nodiscard]] virtual Result<int64_t> migrate() = 0;

  // What time it is there: whether it answers at all.
  [[nodiscard]] virtual Result<WallTime> time() = 0;

  // Why the last call that failed did so.
  [[nodiscard]] virtual telemetry::LedgerError why() const = 0;
  // How often a connection was made, and how often what a deadlock undid was done again.
  [[nodiscard]] virtual uint64_t connections() const = 0;
  [[nodiscard]] virtual uint64_t retries() const = 0;
};

inline constexpr Millis kRegionHeld{4000};

struct StoreOptions {
  // Names this process among those that might clean; also sets pauses apart.
  uint64_t seed = 0;
  // How a pause is made between two tries. Empty: by sleeping.
  std::function<void(Millis)> pause = {};
  // Whole seconds. Longer than a statement may take, so that the server's word comes first.
  Millis connect_timeout{2000};
  Millis answer_timeout{3000};
};

}  // namespace weir::ledgers
