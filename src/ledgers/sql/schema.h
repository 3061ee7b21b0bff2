// The tables of a ledger, for both kinds of store, and the words in which the two differ.
//
// Names of people are bytes, in columns that anybody can read; the key is a hash, so that any
// name fits an index. Times are in ms by the store's own clock.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ledgers/sql/ledger_address.h"

namespace weir::ledgers {

using Dialect = LedgerKind;

inline constexpr int64_t kSchemaVersion = 2;

// Each may be run again, and by two at once.
[[nodiscard]] std::vector<std::string> schema_statements(Dialect dialect);

// The same as one text, for those who would rather run it themselves.
[[nodiscard]] std::string schema_sql(Dialect dialect);

// What is done with the tables.
struct Statements {
  std::string now;
  std::string begin;
  std::string note_now;  // before INSERTs whose groups say so; may be empty
  // INSERT: head, then groups with commas between, then tail.
  std::string cells_head, cells_group, cells_tail;
  std::string presence_head, presence_group, presence_tail;
  std::string changed_cells, changed_presences;  // values: since, most
  std::string page_of_cells;      // values: key_hash, key_hash, sequence, sequence, region
  std::string page_of_presences;  // values: key_hash, key_hash, region
  std::string heartbeat;          // values: region, hidden_ppm
  std::string regions, settings;
  std::string settings_head;  // with groups of (?,?): those that are not there yet
  std::string make_lease;
  std::string take_lease;  // values: holder, holder
  std::string lease;
  std::string make_hold;     // values: name
  std::string take_hold;     // values: holder, name, holder, dead holder, dead until
  std::string hold;          // values: name
  std::string release_hold;  // values: name, holder
  std::string clean_cells, clean_presences;  // values: at most
  // The same row by row, where others hold one of them: the keys of what expired (value: at most),
  // and DELETE: head, then groups with OR between, then a parenthesis.
  std::string expired_cells, expired_presences;
  std::string delete_cells_head, delete_cells_group;  // values: key_hash, region, sequence
  std::string delete_presences_head, delete_presences_group;
  std::string clean_regions;
  size_t rows_per_insert = 1;
};
[[nodiscard]] Statements statements_of(Dialect dialect);

}  // namespace weir::ledgers
