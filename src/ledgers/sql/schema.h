// The tables of a ledger and the statements on them, in both SQL dialects.
//
// Names are stored as bytes in readable columns. The key is a hash, so that a name of any length
// fits the index. Times are in ms by the clock of the store.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ledgers/sql/ledger_address.h"

namespace weir::ledgers {

using Dialect = LedgerKind;

inline constexpr int64_t kSchemaVersion = 2;

// Each statement is idempotent and safe to run concurrently.
[[nodiscard]] std::vector<std::string> schema_statements(Dialect dialect);

// The same statements as one text, for operators who run them by hand.
[[nodiscard]] std::string schema_sql(Dialect dialect);

// The statements of a store.
struct SqlTexts {
  std::string now;
  std::string begin;
  std::string set_now;  // runs before INSERTs; may be empty
  // INSERT: head, then groups separated by commas, then tail.
  std::string cells_head, cells_group, cells_tail;
  std::string presence_head, presence_group, presence_tail;
  std::string changed_cells, changed_presences;  // values: since, most
  std::string page_of_cells;      // values: key_hash, key_hash, sequence, sequence, region
  std::string page_of_presences;  // values: key_hash, key_hash, region
  std::string heartbeat;          // values: region, hidden_ppm
  std::string regions, settings;
  std::string settings_head;  // with groups of (?,?): inserts the missing settings
  std::string insert_cleaning_lease;
  std::string take_cleaning_lease;  // values: holder, holder
  std::string cleaning_lease;
  std::string insert_region_lease;   // values: name
  std::string take_region_lease;     // values: holder, name, holder, expired holder, expired until
  std::string region_lease;          // values: name
  std::string release_region_lease;  // values: name, holder
  std::string clean_cells, clean_presences;  // values: most
  // The same row by row, if another process holds a row: the keys of expired rows (value: most),
  // and DELETE: head, then groups separated by OR, then a parenthesis.
  std::string expired_cells, expired_presences;
  std::string delete_cells_head, delete_cells_group;  // values: key_hash, region, sequence
  std::string delete_presences_head, delete_presences_group;
  std::string clean_regions;
  size_t rows_per_insert = 1;
};
[[nodiscard]] SqlTexts sql_texts(Dialect dialect);

}  // namespace weir::ledgers
