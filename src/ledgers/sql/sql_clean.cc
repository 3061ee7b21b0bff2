// Deletion of expired rows and old batches, by one process at a time.

#include <algorithm>

#include "ledgers/sql/sql_store.h"

namespace weir::ledgers {
namespace {

constexpr size_t kRowsPerDelete = 500;

}  // namespace

// An expired cell, by its key.
struct SqlStore::ExpiredRow {
  std::string region;
  std::string hash;
  int64_t sequence = 0;
};

Result<LedgerCleaning> SqlStore::clean(size_t most) {
  LedgerCleaning cleaning;
  const std::string_view holder = holder_;
  const SqlStatement lease[] = {{.sql = texts_.insert_cleaning_lease},
                                {.sql = texts_.take_cleaning_lease, .values = {holder, holder}},
                                {.sql = texts_.cleaning_lease}};
  auto failure = retry_deadlocks([&] {
    return run(lease, [&](size_t, const SqlRow& row) { cleaning.ours = row.bytes(0) == holder; });
  });
  if (failure) return to_error(*failure);
  if (!cleaning.ours) return cleaning;
  // Batches first: they are few and large. No process changes a batch, so a lock on one is rare:
  // then they stay until later.
  failure = delete_old(texts_.clean_feed, most, cleaning.deleted);
  if (failure && failure->kind != LedgerError::kLocked) return to_error(*failure);
  failure = delete_old(texts_.clean_cells, most, cleaning.deleted);
  if (failure && failure->kind == LedgerError::kLocked) {
    failure = delete_unlocked_cells(most, cleaning.deleted);
  }
  if (failure) return to_error(*failure);
  const SqlStatement regions[] = {{.sql = texts_.clean_reports}, {.sql = texts_.clean_regions}};
  failure = retry_deadlocks([&] { return run(regions); });
  if (failure && failure->kind != LedgerError::kLocked) return to_error(*failure);
  return cleaning;
}

// In small steps, so that other processes do not wait long for its locks. It does not wait for
// theirs.
SqlStore::Failure SqlStore::delete_old(const std::string& sql, size_t most, size_t& deleted) {
  const std::string text = no_wait() + sql;
  while (deleted < most) {
    const size_t wanted = std::min(most - deleted, kRowsPerDelete);
    const SqlStatement statement{.sql = text, .values = {static_cast<int64_t>(wanted)}};
    if (Failure failure = retry_deadlocks([&] { return run({&statement, 1}); })) return failure;
    deleted += link_->affected();
    if (link_->affected() < wanted) break;
  }
  return std::nullopt;
}

// Another process holds one of the cells: deletes all others by their keys.
SqlStore::Failure SqlStore::delete_unlocked_cells(size_t most, size_t& deleted) {
  // Without NOWAIT each attempt would wait for the lock: leave the rows for later.
  if (!link_->supports_no_wait()) return std::nullopt;
  for (size_t before = ~size_t{0}; deleted < most && before != deleted;) {
    before = deleted;
    const SqlStatement statement{.sql = texts_.expired_cells,
                                 .values = {static_cast<int64_t>(kRowsPerDelete)}};
    std::vector<ExpiredRow> rows;
    Failure failure = run({&statement, 1}, [&](size_t, const SqlRow& row) {
      rows.push_back({.region = std::string(row.bytes(0)),
                      .hash = std::string(row.bytes(1)),
                      .sequence = row.number(2).value_or(0)});
    });
    rows.resize(std::min(rows.size(), most - deleted));
    if (!failure) failure = delete_cells(rows, deleted);
    if (failure) return failure;
  }
  return std::nullopt;
}

// Finds the locked row by bisection.
SqlStore::Failure SqlStore::delete_cells(std::span<const ExpiredRow> rows, size_t& deleted) {
  if (rows.empty()) return std::nullopt;
  std::string text = no_wait() + texts_.delete_cells_head;
  SqlStatement statement;
  for (const ExpiredRow& row : rows) {
    text +=
        statement.values.empty() ? texts_.delete_cells_group : " OR " + texts_.delete_cells_group;
    statement.values.emplace_back(std::string_view(row.region));
    statement.values.emplace_back(std::string_view(row.hash));
    statement.values.emplace_back(row.sequence);
  }
  text += ')';
  statement.sql = text;
  const Failure failure = retry_deadlocks([&] { return run({&statement, 1}); });
  if (!failure) deleted += link_->affected();
  if (!failure || failure->kind != LedgerError::kLocked) return failure;
  if (rows.size() == 1) return std::nullopt;
  const size_t half = rows.size() / 2;
  if (Failure first = delete_cells(rows.first(half), deleted)) return first;
  return delete_cells(rows.subspan(half), deleted);
}

}  // namespace weir::ledgers
