// The tables of a ledger and of the catalog, in both SQL dialects.
//
// Names are stored as bytes in readable columns. The key is a hash, so that a name of any length
// fits the index. It begins with the region, so that the rows of a region lie together. Times of
// writing are in ms by the clock of the store.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ledgers/sql/ledger_address.h"

namespace weir::ledgers {

using Dialect = LedgerKind;

inline constexpr int64_t kSchemaVersion = 4;

// Each statement is idempotent and safe to run concurrently.
[[nodiscard]] std::vector<std::string> schema_statements(Dialect dialect);

// The same statements as one text, for operators who run them by hand.
[[nodiscard]] std::string schema_sql(Dialect dialect);

}  // namespace weir::ledgers
