#include "ledgers/sql/mysql_ledger.h"

#include "ledgers/sql/mysql_link.h"
#include "ledgers/sql/sql_store.h"

namespace weir::ledgers {

std::unique_ptr<LedgerStore> make_mysql_store(const Clock& clock, const LedgerAddress& address,
                                              StoreOptions options) {
  auto link = make_mysql_link(
      clock, address,
      {.connect_timeout = options.connect_timeout,
       .answer_timeout = options.answer_timeout,
       .lock_timeout = options.lock_timeout.value_or(MySqlTimeouts().lock_timeout)});
  return std::make_unique<SqlStore>(clock, Dialect::kMySql, std::move(link), to_string(address),
                                    std::move(options));
}

std::shared_ptr<ThreadedLedger> make_mysql_ledger(const Clock& clock, MySqlLedgerOptions options) {
  return make_threaded_ledger(
      clock,
      [&](uint64_t seed) { return make_mysql_store(clock, options.address, {.seed = seed}); },
      options.seed);
}

}  // namespace weir::ledgers
