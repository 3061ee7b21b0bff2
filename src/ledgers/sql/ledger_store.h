// A blocking connection to the store of a ledger; ThreadedLedger turns stores into a GlobalLedger.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telemetry/ledger_metrics.h"
#include "weir/clock.h"
#include "weir/ledger.h"

namespace weir::ledgers {

// The lease on a region: its holder is the process that counts for the region, or all processes
// that share one origin. A live holder renews it, which raises `until`.
struct RegionLease {
  std::string holder;
  int64_t until = 0;  // ms, by the clock of the store
  friend bool operator==(const RegionLease&, const RegionLease&) = default;
};

inline constexpr Millis kRegionLeaseTime{4000};

// The first five methods match those of GlobalLedger. One thread at a time.
class LedgerStore {
 public:
  virtual ~LedgerStore() = default;

  [[nodiscard]] virtual Result<FeedPosition> publish(const std::string& region, FeedPosition known,
                                                     const std::vector<LedgerRow>& rows) = 0;
  [[nodiscard]] virtual Result<FeedChanges> read_feeds(const std::vector<RegionFeed>& after) = 0;
  [[nodiscard]] virtual Result<LedgerPage> read_page(const std::string& region,
                                                     const LedgerPosition& position) = 0;
  [[nodiscard]] virtual Result<LedgerFleet> heartbeat(const LedgerRegion& self,
                                                      const SyncRules& rules) = 0;
  [[nodiscard]] virtual Result<LedgerCleaning> clean(size_t most) = 0;

  // Runs every statement of the methods above once, on rows of its own, and rolls back. Shows
  // whether all tables exist and the user has all permissions. Returns the time of the store.
  [[nodiscard]] virtual Result<WallTime> dry_run() = 0;

  // Acquires or renews the lease on a region for kRegionLeaseTime if it is free. `expired` is a
  // lease that counts as free although its time is not over. Returns the lease after the call.
  [[nodiscard]] virtual Result<RegionLease> acquire_region(const std::string& region,
                                                           const std::string& holder,
                                                           const RegionLease& expired) = 0;
  // Ends the lease if `holder` has it.
  virtual void release_region(const std::string& region, const std::string& holder) = 0;

  // Creates the missing tables and keeps the others. Returns the schema version.
  [[nodiscard]] virtual Result<int64_t> migrate() = 0;

  // Returns the time of the store; a cheap probe.
  [[nodiscard]] virtual Result<WallTime> time() = 0;

  // The kind of the last failure.
  [[nodiscard]] virtual telemetry::LedgerError last_error_kind() const = 0;
  // Number of connections made, and of retries after a deadlock.
  [[nodiscard]] virtual uint64_t connections() const = 0;
  [[nodiscard]] virtual uint64_t retries() const = 0;
};

struct StoreOptions {
  // Names this process in the cleaning lease, and seeds random pauses and the random bits of
  // epochs.
  uint64_t seed = 0;
  // Pauses between two attempts. Empty: sleeps.
  std::function<void(Millis)> pause = {};
  // Whole seconds. answer_timeout is longer than the statement timeout of the server, so that the
  // server reports the error first.
  Millis connect_timeout{2000};
  Millis answer_timeout{3000};
  // How long a call waits for a lock of another connection. None: 2 s for a file, 1 s (whole
  // seconds) for a row at a server.
  std::optional<Millis> lock_timeout = std::nullopt;
};

}  // namespace weir::ledgers
