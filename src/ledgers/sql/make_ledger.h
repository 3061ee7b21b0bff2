// Stores and ledgers of either kind, chosen by the address. Links both client libraries: a program
// that needs one kind only uses sqlite_ledger.h or mysql_ledger.h.

#pragma once

#include <memory>

#include "ledgers/sql/ledger_address.h"
#include "ledgers/sql/ledger_store.h"
#include "ledgers/sql/threaded_ledger.h"

namespace weir::ledgers {

// The store connects at its first call.
[[nodiscard]] std::unique_ptr<LedgerStore> make_store(const Clock& clock,
                                                      const LedgerAddress& address,
                                                      StoreOptions options);

// Not started. `seed` names this process among those that share the ledger; 0: random.
[[nodiscard]] std::shared_ptr<ThreadedLedger> make_ledger(const Clock& clock,
                                                          const LedgerAddress& address,
                                                          uint64_t seed = 0);

}  // namespace weir::ledgers
