#include "ledgers/sql/make_ledger.h"

#include "ledgers/sql/mysql_ledger.h"
#include "ledgers/sql/sqlite_ledger.h"

namespace weir::ledgers {

std::unique_ptr<LedgerStore> make_store(const Clock& clock, const LedgerAddress& address,
                                        StoreOptions options) {
  if (address.kind == LedgerKind::kSqlite) {
    return make_sqlite_store(clock, address.path, std::move(options));
  }
  return make_mysql_store(clock, address, std::move(options));
}

std::shared_ptr<ThreadedLedger> make_ledger(const Clock& clock, const LedgerAddress& address,
                                            uint64_t seed) {
  if (address.kind == LedgerKind::kSqlite) {
    return make_sqlite_ledger(clock, {.path = address.path, .seed = seed});
  }
  return make_mysql_ledger(clock, {.address = address, .seed = seed});
}

}  // namespace weir::ledgers
