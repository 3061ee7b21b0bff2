// The statements of one publish.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ledgers/sql/sql_store.h"

namespace weir::ledgers {

// Statements refer to the other members and to the rows.
struct SqlStore::Publication {
  struct Cell {
    std::string hash;
    const LedgerRow* row;
  };
  std::vector<Cell> sorted;  // in the order of their keys
  std::string body;
  std::vector<std::string> texts;

  std::vector<SqlStatement> cells;
  std::vector<size_t> cell_bytes;  // of each statement, approximately
  // Raises the head, appends the batch, and returns the head.
  std::vector<SqlStatement> batch;

  // Whether a failure of commit() is one of the statements in `cells`.
  [[nodiscard]] bool is_of_cells(const SqlFailure& failure) const {
    return failure.statement < cells.size();
  }
};

}  // namespace weir::ledgers
