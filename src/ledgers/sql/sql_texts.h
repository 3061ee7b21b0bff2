// The statements of a store, in both SQL dialects.

#pragma once

#include <cstdint>
#include <string>

#include "ledgers/sql/schema.h"

namespace weir::ledgers {

struct SqlTexts {
  std::string now;
  std::string begin;
  std::string set_now;  // runs before INSERTs; may be empty

  // Publishing. INSERT of cells: head, then groups separated by commas, then tail.
  // Values of a group: region, key_hash, sequence, count, limit_seen, leased_until_ms,
  // kept_until_ms, workspace, namespace, identifier, duration_ms.
  std::string cells_head, cells_group, cells_tail;
  size_t rows_per_insert = 1;
  // Adds one to the head of a feed, or begins an epoch.
  // Values: region, random bits, least epoch, then three times the known epoch, and its number.
  std::string raise_head;
  std::string insert_batch;  // values: body, region
  std::string head;          // value: region

  // Reading feeds: heads, then one branch per feed, as one statement. Columns: 0 for a head or 1
  // for a batch, region, epoch, number, body.
  std::string heads;
  std::string batches_branch;  // values: region, epoch, number, most

  // The head of a feed and a page of cells, as one statement. Columns as in sql_read.cc. Values:
  // region, region, key_hash, key_hash, sequence.
  std::string page_of_cells;

  std::string heartbeat;  // values: region, unpublished_ppm, 1 if the bridge sent it
  // Values of a group: region, key_hash, workspace, namespace, unpublished_ppm.
  std::string reports_head, reports_group, reports_tail;
  // Columns: 0 for a region or 1 for a namespace, region, workspace, namespace, unpublished_ppm,
  // silent_ms; 2 for the present time, in the last column.
  std::string regions;
  std::string settings;
  std::string settings_head;  // with groups of (?,?): inserts the missing settings

  std::string insert_cleaning_lease;
  std::string take_cleaning_lease;  // values: holder, holder
  std::string cleaning_lease;
  std::string insert_region_lease;   // values: name
  std::string take_region_lease;     // values: holder, name, holder, expired holder, expired until
  std::string region_lease;          // values: name
  std::string release_region_lease;  // values: name, holder

  std::string clean_feed, clean_cells;  // value: most
  // The same row by row, if another process holds a cell: the keys of expired cells (value: most),
  // and DELETE: head, then groups separated by OR, then a parenthesis.
  std::string expired_cells;
  std::string delete_cells_head, delete_cells_group;  // values: region, key_hash, sequence
  std::string clean_regions, clean_reports;
};
[[nodiscard]] SqlTexts sql_texts(Dialect dialect);

}  // namespace weir::ledgers
