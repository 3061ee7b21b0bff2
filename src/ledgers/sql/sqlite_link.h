// A connection to an SQLite file: for regions on one machine, and for trials.

#pragma once

#include <memory>

#include "ledgers/sql/sql_link.h"
#include "weir/clock.h"

namespace weir::ledgers {

inline constexpr Millis kFileLockTimeout{2000};

// The clock of the store is `clock`. The file is created if it does not exist.
[[nodiscard]] std::unique_ptr<SqlLink> make_sqlite_link(const Clock& clock, std::string path,
                                                        Millis lock_timeout = kFileLockTimeout);

}  // namespace weir::ledgers
