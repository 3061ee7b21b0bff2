// Reading changes and pages. Columns are in the order of the SELECT statements in schema.cc.

#include <algorithm>

#include "ledgers/sql/sql_store.h"

namespace weir::ledgers {
namespace {

std::optional<LedgerKey> key_at(const SqlRow& row) {
  const auto duration = row.number(3);
  if (!duration) return std::nullopt;
  return LedgerKey{.workspace = std::string(row.bytes(0)),
                   .ns = std::string(row.bytes(1)),
                   .identifier = std::string(row.bytes(2)),
                   .duration = Millis(*duration)};
}

// None for a row that no region can have written.
std::optional<LedgerRow> cell_at(const SqlRow& row) {
  auto key = key_at(row);
  const auto sequence = row.number(5);
  const auto count = row.number(6);
  const auto limit = row.number(7);
  const auto end = row.number(8);
  if (!key || !sequence || !count || *count < 0 || !limit || *limit < 0 || !end) {
    return std::nullopt;
  }
  LedgerRow cell{.key = std::move(*key),
                 .sequence = *sequence,
                 .region = std::string(row.bytes(4)),
                 .count = static_cast<Count>(*count),
                 .limit_seen = static_cast<Count>(*limit)};
  if (!is_valid(cell) || cell.expires_at() != WallTime(Millis(*end))) return std::nullopt;
  return cell;
}

std::optional<LedgerPresence> presence_at(const SqlRow& row) {
  auto key = key_at(row);
  const auto until = row.number(5);
  if (!key || !until) return std::nullopt;
  LedgerPresence presence{.key = std::move(*key),
                          .region = std::string(row.bytes(4)),
                          .until = WallTime(Millis(*until))};
  if (!is_valid(presence)) return std::nullopt;
  return presence;
}

template <typename Item>
void append(std::optional<Item> item, std::vector<Item>& list, uint64_t& invalid) {
  if (item) {
    list.push_back(std::move(*item));
  } else {
    ++invalid;
  }
}

}  // namespace

Result<LedgerChanges> SqlStore::changes_since(LedgerCursor cursor) {
  LedgerChanges changes;
  const Millis since = read_start(cursor);
  const size_t most = max_changes_;
  // One more shows whether the answer is complete.
  const std::vector<SqlValue> values = {since.count(), static_cast<int64_t>(most + 1)};
  // The time comes first: the next read finds rows that commit after it.
  const SqlStatement statements[] = {{.sql = texts_.now},
                                     {.sql = texts_.changed_cells, .values = values},
                                     {.sql = texts_.changed_presences, .values = values}};
  size_t read[2] = {0, 0};
  Millis last{0};
  const auto on_row = [&](size_t statement, const SqlRow& row) {
    if (statement == 0) {
      changes.next.position = row.number(0).value_or(0);
      return;
    }
    const bool cells = statement == 1;
    if (++read[statement - 1] > most) {
      mark_truncated(since, last, changes);
      return;
    }
    last = Millis(row.number(cells ? 9 : 6).value_or(0));
    if (cells) {
      append(cell_at(row), changes.news.rows, changes.invalid);
    } else {
      append(presence_at(row), changes.news.presences, changes.invalid);
    }
  };
  const auto failure = run(std::span(statements).first(cursor.position == 0 ? 1 : 3), on_row);
  if (failure) {
    // The same request would time out again: ask for less.
    if (failure->kind == LedgerError::kTimeout) max_changes_ = std::max(most / 2, kRowsPerPage);
    return to_error(*failure);
  }
  max_changes_ = std::min(most + kRowsPerPage, kMaxChanges);
  return changes;
}

Result<LedgerPage> SqlStore::read_page(const LedgerPosition& position) {
  const auto from = decode(position);
  if (!from) {
    last_error_kind_ = LedgerError::kOther;
    return bad_position();
  }
  LedgerPage page;
  const bool cells = from->part == PageCursor::Part::kRows;
  // -1 is before the first sequence.
  const int64_t sequence = position.after.empty() ? -1 : from->sequence;
  const std::string_view key = from->key;
  const std::string_view region = from->region;
  SqlStatement statement{.sql = texts_.page_of_presences, .values = {key, key, region}};
  if (cells) {
    statement = {.sql = texts_.page_of_cells, .values = {key, key, sequence, sequence, region}};
  }
  PageCursor last{.part = from->part};
  size_t read = 0;
  const auto failure = run({&statement, 1}, [&](size_t, const SqlRow& row) {
    ++read;
    if (cells) {
      append(cell_at(row), page.news.rows, page.invalid);
    } else {
      append(presence_at(row), page.news.presences, page.invalid);
    }
    if (read < kRowsPerPage) return;
    last.region = row.bytes(4);
    last.sequence = cells ? row.number(5).value_or(0) : 0;
    last.key = row.bytes(cells ? 9 : 6);
  });
  if (failure) return to_error(*failure);
  if (read == kRowsPerPage) {
    page.next.after = encode(last);
  } else if (cells) {
    page.next.after = encode({.part = PageCursor::Part::kPresences});
  }
  page.last = page.next.after.empty();
  return page;
}

}  // namespace weir::ledgers
