// Deletion of expired rows, by one process at a time.

#include <algorithm>

#include "ledgers/sql/sql_store.h"

namespace weir::ledgers {
namespace {

constexpr size_t kRowsPerDelete = 500;

}  // namespace

// An expired row, by its key.
struct SqlStore::ExpiredRow {
  std::string hash;
  std::string region;
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
  failure = clean_table({.delete_expired = texts_.clean_cells,
                         .list_expired = texts_.expired_cells,
                         .delete_head = texts_.delete_cells_head,
                         .delete_group = texts_.delete_cells_group},
                        most, cleaning);
  if (failure) return to_error(*failure);
  failure = clean_table({.delete_expired = texts_.clean_presences,
                         .list_expired = texts_.expired_presences,
                         .delete_head = texts_.delete_presences_head,
                         .delete_group = texts_.delete_presences_group},
                        most, cleaning);
  if (failure) return to_error(*failure);
  const SqlStatement regions{.sql = texts_.clean_regions};
  failure = retry_deadlocks([&] { return run({&regions, 1}); });
  if (failure && failure->kind != LedgerError::kLocked) return to_error(*failure);
  return cleaning;
}

SqlStore::Failure SqlStore::clean_table(const CleanTexts& texts, size_t most,
                                        LedgerCleaning& cleaning) {
  Failure failure = delete_expired(texts, most, cleaning);
  if (failure && failure->kind == LedgerError::kLocked) {
    failure = delete_unlocked(texts, most, cleaning);
  }
  return failure;
}

// In small steps, so that other processes do not wait long for its locks. It does not wait for
// theirs.
SqlStore::Failure SqlStore::delete_expired(const CleanTexts& texts, size_t most,
                                           LedgerCleaning& cleaning) {
  while (cleaning.deleted < most) {
    const size_t wanted = std::min(most - cleaning.deleted, kRowsPerDelete);
    const std::string sql = no_wait() + texts.delete_expired;
    const SqlStatement statement{.sql = sql, .values = {static_cast<int64_t>(wanted)}};
    if (Failure failure = retry_deadlocks([&] { return run({&statement, 1}); })) return failure;
    cleaning.deleted += link_->affected();
    if (link_->affected() < wanted) break;
  }
  return std::nullopt;
}

// Another process holds one of the rows: deletes all others by their keys.
SqlStore::Failure SqlStore::delete_unlocked(const CleanTexts& texts, size_t most,
                                            LedgerCleaning& cleaning) {
  // Without NOWAIT each attempt would wait for the lock: leave the rows for later.
  if (!link_->supports_no_wait()) return std::nullopt;
  for (size_t before = ~size_t{0}; cleaning.deleted < most && before != cleaning.deleted;) {
    before = cleaning.deleted;
    const SqlStatement statement{.sql = texts.list_expired,
                                 .values = {static_cast<int64_t>(kRowsPerDelete)}};
    std::vector<ExpiredRow> rows;
    Failure failure = run({&statement, 1}, [&](size_t, const SqlRow& row) {
      rows.push_back({.hash = std::string(row.bytes(0)),
                      .region = std::string(row.bytes(1)),
                      .sequence = row.number(2).value_or(0)});
    });
    rows.resize(std::min(rows.size(), most - cleaning.deleted));
    if (!failure) failure = delete_rows(rows, texts, cleaning);
    if (failure) return failure;
  }
  return std::nullopt;
}

// Finds the locked row by bisection.
SqlStore::Failure SqlStore::delete_rows(std::span<const ExpiredRow> rows, const CleanTexts& texts,
                                        LedgerCleaning& cleaning) {
  if (rows.empty()) return std::nullopt;
  std::string text = no_wait() + texts.delete_head;
  SqlStatement statement;
  for (const ExpiredRow& row : rows) {
    text += statement.values.empty() ? texts.delete_group : " OR " + texts.delete_group;
    statement.values.emplace_back(std::string_view(row.hash));
    statement.values.emplace_back(std::string_view(row.region));
    statement.values.emplace_back(row.sequence);
  }
  text += ')';
  statement.sql = text;
  const Failure failure = retry_deadlocks([&] { return run({&statement, 1}); });
  if (!failure) cleaning.deleted += link_->affected();
  if (!failure || failure->kind != LedgerError::kLocked) return failure;
  if (rows.size() == 1) return std::nullopt;
  const size_t half = rows.size() / 2;
  if (Failure first = delete_rows(rows.first(half), texts, cleaning)) return first;
  return delete_rows(rows.subspan(half), texts, cleaning);
}

}  // namespace weir::ledgers
