// A file of SQLite: for regions on one machine, and for trying things out.

#pragma once

#include <memory>

#include "ledgers/sql/sql_link.h"
#include "weir/clock.h"

namespace weir::ledgers {

// The store's clock is `clock`. The file is made where there is none.
[[nodiscard]] std::unique_ptr<SqlLink> make_sqlite_link(const Clock& clock, std::string path);

}  // namespace weir::ledgers
