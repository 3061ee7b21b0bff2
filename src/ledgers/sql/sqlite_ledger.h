// The ledger in an SQLite file.

#pragma once

#include <memory>
#include <string>

#include "ledgers/sql/ledger_store.h"
#include "ledgers/sql/threaded_ledger.h"

namespace weir::ledgers {

struct SqliteLedgerOptions {
  std::string path = {};
  uint64_t seed = 0;  // names this process among those that share the file; 0: random
  std::optional<Millis> lock_timeout = std::nullopt;  // as in StoreOptions
};

// Not started: start() opens the file and creates it and its tables if they are missing. `clock`
// must outlive the ledger.
[[nodiscard]] std::shared_ptr<ThreadedLedger> make_sqlite_ledger(const Clock& clock,
                                                                 SqliteLedgerOptions options);

// One connection to the file. The clock of the store is `clock`.
[[nodiscard]] std::unique_ptr<LedgerStore> make_sqlite_store(const Clock& clock,
                                                             const std::string& path,
                                                             StoreOptions options);

}  // namespace weir::ledgers
