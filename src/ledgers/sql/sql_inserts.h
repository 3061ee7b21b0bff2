// The INSERT statements of one publish.

#pragma once

#include <string>
#include <vector>

#include "ledgers/sql/sql_store.h"

namespace weir::ledgers {

// In the order of execution. Statements refer to the other members and to the batch.
struct SqlStore::Inserts {
  struct Cell {
    std::string hash;
    const LedgerRow* row;
  };
  struct Presence {
    std::string hash;
    const LedgerPresence* presence;
  };
  std::vector<Cell> cells;
  std::vector<Presence> presences;
  std::vector<std::string> texts;
  std::vector<SqlStatement> statements;
  std::vector<size_t> sizes;  // approximate, in bytes
};

}  // namespace weir::ledgers
