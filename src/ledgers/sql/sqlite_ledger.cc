#include "ledgers/sql/sqlite_ledger.h"

#include "ledgers/sql/sql_store.h"
#include "ledgers/sql/sqlite_link.h"

namespace weir::ledgers {

std::unique_ptr<LedgerStore> make_sqlite_store(const Clock& clock, const std::string& path,
                                               StoreOptions options) {
  auto link = make_sqlite_link(clock, path, options.lock_timeout.value_or(kFileLockTimeout));
  return std::make_unique<SqlStore>(clock, Dialect::kSqlite, std::move(link),
                                    to_string(LedgerAddress{.path = path}), std::move(options));
}

std::shared_ptr<ThreadedLedger> make_sqlite_ledger(const Clock& clock,
                                                   SqliteLedgerOptions options) {
  return make_threaded_ledger(
      clock,
      [&](uint64_t seed) {
        return make_sqlite_store(clock, options.path,
                                 {.seed = seed, .lock_timeout = options.lock_timeout});
      },
      options.seed);
}

}  // namespace weir::ledgers
