#include "weir/sqlite.h"

#include <utility>

#include "ledgers/sql/sqlite_ledger.h"
#include "library/store_options.h"
#include "platform/own_thread.h"
#include "weir/clock.h"

namespace weir {

Result<std::shared_ptr<GlobalLedger>> sqlite_ledger(const SqliteOptions& options) {
  if (auto error = library::check_length("path", options.path, {.least = 1, .most = 4096})) {
    return std::move(*error);
  }
  auto ledger = ledgers::make_sqlite_ledger(system_clock(), {.path = options.path});
  ledger->start();
  return platform::destroyed_by_others<GlobalLedger>(std::move(ledger));
}

}  // namespace weir
