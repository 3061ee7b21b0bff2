#include "ledgers/sql/sql_texts.h"

#include "ledgers/rows.h"
#include "ledgers/sql/ledger_store.h"

namespace weir::ledgers {
namespace {

// sqlite_link.cc defines this function.
constexpr std::string_view kSqliteNow = "weir_now()";
// The session has the time zone UTC.
constexpr std::string_view kMySqlNow = "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)";

struct Writer {
  explicit Writer(Dialect dialect)
      : sqlite(dialect == Dialect::kSqlite),
        now(sqlite ? kSqliteNow : kMySqlNow),
        insert_new(sqlite ? "INSERT OR IGNORE INTO " : "INSERT IGNORE INTO ") {}

  void add_publishing(SqlTexts& s) const;
  void add_reading(SqlTexts& s) const;
  void add_regions(SqlTexts& s) const;
  void add_leases(SqlTexts& s) const;
  void add_cleaning(SqlTexts& s) const;
  [[nodiscard]] std::string keep_largest_report(const std::string& key) const;

  const bool sqlite;
  const std::string now;
  const std::string insert_new;
  const std::string report_span = std::to_string(kUnpublishedKept.count());
  const std::string report_retention = std::to_string(2 * kUnpublishedKept.count());
};

void Writer::add_publishing(SqlTexts& s) const {
  // In SQLite a transaction that upgrades from reading to writing may fail without waiting.
  s.begin = sqlite ? "BEGIN IMMEDIATE" : "BEGIN";
  // Computed once per batch, not once per row.
  s.set_now = sqlite ? "" : "SET @weir_now = " + now;
  const std::string batch_now = sqlite ? now : "@weir_now";

  s.cells_head =
      "INSERT INTO weir_cells (region, key_hash, sequence, count, limit_seen, leased_until_ms, "
      "kept_until_ms, workspace, namespace, identifier, duration_ms, written_at_ms) VALUES ";
  s.cells_group = "(?,?,?,?,?,?,?,?,?,?,?," + batch_now + ")";
  if (sqlite) {
    s.cells_tail =
        " ON CONFLICT (region, key_hash, sequence) DO UPDATE SET count = MAX(count, "
        "excluded.count), limit_seen = MIN(limit_seen, excluded.limit_seen), "
        "leased_until_ms = MAX(leased_until_ms, excluded.leased_until_ms), "
        "kept_until_ms = MAX(kept_until_ms, excluded.kept_until_ms), "
        "written_at_ms = excluded.written_at_ms";
  } else {
    s.cells_tail =
        " ON DUPLICATE KEY UPDATE count = GREATEST(count, VALUES(count)), "
        "limit_seen = LEAST(limit_seen, VALUES(limit_seen)), "
        "leased_until_ms = GREATEST(leased_until_ms, VALUES(leased_until_ms)), "
        "kept_until_ms = GREATEST(kept_until_ms, VALUES(kept_until_ms)), "
        "written_at_ms = VALUES(written_at_ms)";
    s.rows_per_insert = 500;
  }

  // The known epoch is 0 if the caller knows none.
  const std::string begins = "? = 0 OR epoch < ? OR (epoch = ? AND head < ?)";
  const std::string new_epoch = batch_now + " * " + std::to_string(kEpochRandomMask + 1) + " + ?";
  s.raise_head =
      "INSERT INTO weir_regions (region, epoch, head, unpublished_ppm, unpublished_before_ppm, "
      "unpublished_at_ms, heartbeat_ms) VALUES (?, " +
      std::string(sqlite ? "MAX" : "GREATEST") + "(" + new_epoch + ", ?), 1, 0, 0, 0, " +
      batch_now + ")";
  // A head of 1 is that of a new epoch. MySQL assigns from left to right, so that `head` is already
  // the new value when the epoch is set; SQLite uses the old values everywhere.
  if (sqlite) {
    s.raise_head +=
        " ON CONFLICT (region) DO UPDATE SET (head, epoch) = (SELECT CASE WHEN begins THEN 1 ELSE "
        "head + 1 END, CASE WHEN begins THEN MAX(excluded.epoch, epoch + 1) ELSE epoch END FROM "
        "(SELECT " +
        begins + " AS begins))";
  } else {
    s.raise_head += " ON DUPLICATE KEY UPDATE head = IF(" + begins +
                    ", 1, head + 1), epoch = IF(head = 1, GREATEST(VALUES(epoch), epoch + 1), "
                    "epoch)";
  }
  s.insert_batch =
      "INSERT INTO weir_feed (region, epoch, number, written_at_ms, body) SELECT region, epoch, "
      "head, " +
      batch_now + ", ? FROM weir_regions WHERE region = ?";
  s.head = "SELECT epoch, head FROM weir_regions WHERE region = ?";
}

void Writer::add_reading(SqlTexts& s) const {
  s.now = "SELECT " + now;
  s.heads =
      "SELECT 0, region, epoch, head, " + std::string(sqlite ? "x''" : "''") + " FROM weir_regions";
  const std::string batches =
      "SELECT 1, region, epoch, number, body FROM weir_feed WHERE region = ? AND epoch = ? AND "
      "number > ? ORDER BY number LIMIT ?";
  s.batches_branch =
      sqlite ? " UNION ALL SELECT * FROM (" + batches + ")" : " UNION ALL (" + batches + ")";
  // Not as a row comparison: MariaDB would scan from the beginning of the region. And not by the
  // index on kept_until_ms, which contains nearly all rows.
  const std::string cells =
      "SELECT 1, workspace, namespace, identifier, duration_ms, region, sequence, count, "
      "limit_seen, leased_until_ms, kept_until_ms, key_hash FROM weir_cells" +
      std::string(sqlite ? "" : " FORCE INDEX (PRIMARY)") +
      " WHERE region = ? AND key_hash >= ? AND (key_hash > ? OR sequence > ?) AND " +
      (sqlite ? "+" : "") + "kept_until_ms > " + now + " ORDER BY key_hash, sequence LIMIT " +
      std::to_string(kRowsPerPage);
  const std::string none = sqlite ? "x''" : "''";
  s.page_of_cells = "SELECT 0, " + none + ", " + none + ", " + none + ", epoch, region, head, 0, " +
                    "0, 0, 0, " + none + " FROM weir_regions WHERE region = ?" +
                    (sqlite ? " UNION ALL SELECT * FROM (" : " UNION ALL (") + cells + ")";
}

// Keeps the largest unpublished_ppm of a span of time, and that of the span before. More
// assignments may follow.
std::string Writer::keep_largest_report(const std::string& key) const {
  const std::string at = sqlite ? "excluded.unpublished_at_ms" : "VALUES(unpublished_at_ms)";
  const std::string ppm = sqlite ? "excluded.unpublished_ppm" : "VALUES(unpublished_ppm)";
  const std::string ends = "unpublished_at_ms < " + at + " - " + report_span;
  // MySQL assigns from left to right.
  return (sqlite ? " ON CONFLICT (" + key + ") DO UPDATE SET " : " ON DUPLICATE KEY UPDATE ") +
         "unpublished_before_ppm = CASE WHEN unpublished_at_ms < " + at + " - " + report_retention +
         " THEN 0 WHEN " + ends + " THEN unpublished_ppm ELSE unpublished_before_ppm END, " +
         "unpublished_ppm = CASE WHEN " + ends + " OR " + ppm + " > unpublished_ppm THEN " + ppm +
         " ELSE unpublished_ppm END, unpublished_at_ms = CASE WHEN " + ends + " THEN " + at +
         " ELSE unpublished_at_ms END";
}

void Writer::add_regions(SqlTexts& s) const {
  s.heartbeat =
      "INSERT INTO weir_regions (region, epoch, head, unpublished_ppm, unpublished_before_ppm, "
      "unpublished_at_ms, heartbeat_ms) VALUES (?, 0, 0, ?, 0, " +
      now + ", " + now + ")" + keep_largest_report("region") +
      ", heartbeat_ms = CASE WHEN ? = 1 THEN " +
      (sqlite ? "excluded.heartbeat_ms" : "VALUES(heartbeat_ms)") + " ELSE heartbeat_ms END";
  s.reports_head =
      "INSERT INTO weir_reports (region, key_hash, workspace, namespace, unpublished_ppm, "
      "unpublished_before_ppm, unpublished_at_ms) VALUES ";
  s.reports_group = "(?,?,?,?,?,0," + now + ")";
  s.reports_tail = keep_largest_report("region, key_hash");
  const std::string none = sqlite ? "x''" : "''";
  const std::string largest =
      std::string(sqlite ? "MAX" : "GREATEST") + "(unpublished_ppm, unpublished_before_ppm)";
  s.regions = "SELECT 0, region, " + none + ", " + none + ", " + largest + ", " + now +
              " - heartbeat_ms FROM weir_regions UNION ALL SELECT 1, region, workspace, "
              "namespace, " +
              largest + ", 0 FROM weir_reports WHERE unpublished_at_ms >= " + now + " - " +
              report_retention + " UNION ALL SELECT 2, " + none + ", " + none + ", " + none +
              ", 0, " + now + " ORDER BY 1, 2, 3, 4";
  s.settings_head = insert_new + "weir_settings (name, value) VALUES ";
  s.settings = "SELECT name, value FROM weir_settings";
}

void Writer::add_leases(SqlTexts& s) const {
  s.insert_cleaning_lease =
      insert_new + "weir_leases (name, holder, until_ms) VALUES ('cleaning', '', 0)";
  s.take_cleaning_lease = "UPDATE weir_leases SET holder = ?, until_ms = " + now + " + " +
                          std::to_string(kCleaningLease.count()) +
                          " WHERE name = 'cleaning' AND (holder = ? OR until_ms <= " + now + ")";
  s.cleaning_lease = "SELECT holder FROM weir_leases WHERE name = 'cleaning'";
  s.insert_region_lease = insert_new + "weir_leases (name, holder, until_ms) VALUES (?, '', 0)";
  s.take_region_lease = "UPDATE weir_leases SET holder = ?, until_ms = " + now + " + " +
                        std::to_string(kRegionLeaseTime.count()) +
                        " WHERE name = ? AND (holder = ? OR until_ms <= " + now +
                        " OR (holder = ? AND until_ms = ?))";
  s.region_lease = "SELECT holder, until_ms FROM weir_leases WHERE name = ?";
  s.release_region_lease = "UPDATE weir_leases SET until_ms = 0 WHERE name = ? AND holder = ?";
}

void Writer::add_cleaning(SqlTexts& s) const {
  const auto clean = [&](const std::string& table, const std::string& column,
                         const std::string& end) {
    const std::string old =
        " FROM " + table + " WHERE " + column + " <= " + end + " ORDER BY " + column + " LIMIT ?";
    return sqlite ? "DELETE FROM " + table + " WHERE rowid IN (SELECT rowid" + old + ")"
                  : "DELETE" + old;
  };
  s.clean_feed =
      clean("weir_feed", "written_at_ms", now + " - " + std::to_string(kFeedKept.count()));
  s.clean_cells = clean("weir_cells", "kept_until_ms", now);
  s.expired_cells =
      "SELECT region, key_hash, sequence FROM weir_cells WHERE kept_until_ms <= " + now +
      " ORDER BY kept_until_ms LIMIT ?";
  s.delete_cells_head = "DELETE FROM weir_cells WHERE kept_until_ms <= " + now + " AND (";
  s.delete_cells_group = "(region = ? AND key_hash = ? AND sequence = ?)";
  s.clean_reports =
      "DELETE FROM weir_reports WHERE unpublished_at_ms < " + now + " - " + report_retention;
  // Readers find the rows of a region by its head.
  s.clean_regions = "DELETE FROM weir_regions WHERE heartbeat_ms < " + now + " - " +
                    std::to_string(kRegionRetention.count()) +
                    " AND NOT EXISTS (SELECT 1 FROM weir_cells WHERE weir_cells.region = "
                    "weir_regions.region)";
}

}  // namespace

SqlTexts sql_texts(Dialect dialect) {
  const Writer writer(dialect);
  SqlTexts texts;
  writer.add_publishing(texts);
  writer.add_reading(texts);
  writer.add_regions(texts);
  writer.add_leases(texts);
  writer.add_cleaning(texts);
  return texts;
}

}  // namespace weir::ledgers
