// The global ledger in an SQLite file, for the regions of one machine and for tests. Component
// `sqlite`, target weir::sqlite.
//
//   auto ledger = weir::sqlite_ledger({.path = "/var/lib/app/weir.db"});
//   if (!ledger) return fail(ledger.error().detail);
//   auto limiter = weir::Limiter::create(weir::system_clock(),
//                                        {.ledger = *ledger, .region = "east"});

#pragma once

#include <memory>
#include <string>

#include "weir/error.h"
#include "weir/export.h"
#include "weir/ledger.h"

namespace weir {

struct SqliteOptions {
  std::string path = {};  // 1 to 4096 bytes; the file is created if it is missing
};

// A ledger with threads of its own. Use one ledger per limiter. The last owner that releases it
// ends the threads. A file that cannot be opened is not an error here: the ledger tries again, and
// SyncStats::import_lag grows. It follows weir::system_clock(). The error names the option, its
// value and its range.
[[nodiscard]] WEIR_EXPORT Result<std::shared_ptr<GlobalLedger>> sqlite_ledger(
    const SqliteOptions& options);

}  // namespace weir
