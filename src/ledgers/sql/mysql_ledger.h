// The ledger in a MySQL or MariaDB server.

#pragma once

#include <memory>

#include "ledgers/sql/ledger_address.h"
#include "ledgers/sql/threaded_ledger.h"

namespace weir::ledgers {

struct MySqlLedgerOptions {
  LedgerAddress address = {.kind = LedgerKind::kMySql};
  uint64_t seed = 0;  // names this process among those that share the server; 0: random
};

// Not started: start() connects. The tables must exist; LedgerStore::migrate() creates them.
// `clock` must outlive the ledger.
[[nodiscard]] std::shared_ptr<ThreadedLedger> make_mysql_ledger(const Clock& clock,
                                                                MySqlLedgerOptions options);

// One connection to the server. `clock` measures durations only: the clock of the store is that of
// the server.
[[nodiscard]] std::unique_ptr<LedgerStore> make_mysql_store(const Clock& clock,
                                                            const LedgerAddress& address,
                                                            StoreOptions options);

}  // namespace weir::ledgers
