#include "ledgers/sql/schema.h"

#include "ledgers/rows.h"
#include "ledgers/sql/ledger_store.h"

namespace weir::ledgers {
namespace {

// sqlite_link.cc defines this function.
constexpr std::string_view kSqliteNow = "weir_now()";
// The session has the time zone UTC.
constexpr std::string_view kMySqlNow = "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)";

struct ColumnTypes {
  explicit ColumnTypes(Dialect the_dialect) : dialect(the_dialect) {}
  [[nodiscard]] std::string bytes(size_t most) const {
    return dialect == Dialect::kSqlite ? "BLOB" : "VARBINARY(" + std::to_string(most) + ")";
  }
  [[nodiscard]] std::string hash() const {
    return dialect == Dialect::kSqlite ? "BLOB" : "BINARY(32)";
  }
  [[nodiscard]] std::string number() const {
    return dialect == Dialect::kSqlite ? "INTEGER" : "BIGINT";
  }
  [[nodiscard]] std::string amount() const {
    return dialect == Dialect::kSqlite ? "INTEGER" : "BIGINT UNSIGNED";
  }
  // The tuple in readable columns.
  [[nodiscard]] std::string tuple_columns() const {
    const std::string name = bytes(kMaxNameBytes) + " NOT NULL,\n";
    return "  workspace " + name + "  namespace " + name + "  identifier " + name +
           "  duration_ms " + number() + " NOT NULL,\n";
  }
  Dialect dialect;
};

}  // namespace

std::vector<std::string> schema_statements(Dialect dialect) {
  const ColumnTypes types(dialect);
  const bool sqlite = dialect == Dialect::kSqlite;
  std::vector<std::string> statements;
  std::vector<std::string> indexes;
  const auto table = [&](const std::string& name, std::string columns,
                         const std::vector<std::string>& indexed) {
    for (const std::string& column : indexed) {
      const std::string index = name + "_" + column;
      if (sqlite) {
        indexes.push_back("CREATE INDEX IF NOT EXISTS " + index + " ON " + name + " (" + column +
                          ")");
      } else {
        columns += ",\n  KEY " + index + " (" + column + ")";
      }
    }
    statements.push_back("CREATE TABLE IF NOT EXISTS " + name + " (\n" + columns + "\n)" +
                         (sqlite ? "" : " ENGINE=InnoDB"));
  };
  const std::string region = "  region " + types.bytes(kMaxRegionBytes) + " NOT NULL,\n";
  const std::string number = " " + types.number() + " NOT NULL";
  const std::string hash = "  key_hash " + types.hash() + " NOT NULL,\n";

  table("weir_cells",
        hash + "  sequence" + number + ",\n" + region + "  count " + types.amount() +
            " NOT NULL,\n  limit_seen " + types.amount() + " NOT NULL,\n  detail " +
            types.bytes(1024) + " NULL,\n  expires_at_ms" + number + ",\n  updated_at" + number +
            ",\n" + types.tuple_columns() + "  PRIMARY KEY (key_hash, sequence, region)",
        {"updated_at", "expires_at_ms"});
  table("weir_presence",
        hash + region + "  until_ms" + number + ",\n  updated_at" + number + ",\n" +
            types.tuple_columns() + "  PRIMARY KEY (key_hash, region)",
        {"updated_at", "until_ms"});
  table("weir_regions",
        region + "  hidden_ppm " + types.amount() + " NOT NULL,\n  hidden_at" + number +
            ",\n  heartbeat" + number + ",\n  PRIMARY KEY (region)",
        {});
  table("weir_settings",
        "  name " + types.bytes(64) + " NOT NULL,\n  value " + types.bytes(255) +
            " NOT NULL,\n  PRIMARY KEY (name)",
        {});
  table("weir_leases",
        "  name " + types.bytes(64) + " NOT NULL,\n  holder " + types.bytes(64) +
            " NOT NULL,\n  until_ms" + number + ",\n  PRIMARY KEY (name)",
        {});
  statements.insert(statements.end(), indexes.begin(), indexes.end());
  statements.push_back(std::string(sqlite ? "INSERT OR IGNORE" : "INSERT IGNORE") +
                       " INTO weir_settings (name, value) VALUES (" +
                       (sqlite ? "CAST('schema_version' AS BLOB), CAST('" : "'schema_version', '") +
                       std::to_string(kSchemaVersion) + (sqlite ? "' AS BLOB))" : "')"));
  return statements;
}

std::string schema_sql(Dialect dialect) {
  std::string text;
  for (const std::string& statement : schema_statements(dialect)) text += statement + ";\n\n";
  text.pop_back();
  return text;
}

SqlTexts sql_texts(Dialect dialect) {
  const bool sqlite = dialect == Dialect::kSqlite;
  const std::string now(sqlite ? kSqliteNow : kMySqlNow);
  const std::string ignore = sqlite ? "INSERT OR IGNORE INTO " : "INSERT IGNORE INTO ";
  const std::string names = "workspace, namespace, identifier, duration_ms";
  const std::string cell = names + ", region, sequence, count, limit_seen, expires_at_ms";
  const std::string presence = names + ", region, until_ms";
  const std::string page = std::to_string(kRowsPerPage);

  SqlTexts s;
  s.now = "SELECT " + now;
  // In SQLite a transaction that upgrades from reading to writing may fail without waiting.
  s.begin = sqlite ? "BEGIN IMMEDIATE" : "BEGIN";
  // Computed once per batch, not once per row.
  s.set_now = sqlite ? "" : "SET @weir_now = " + now;
  const std::string batch_now = sqlite ? now : "@weir_now";

  s.cells_head =
      "INSERT INTO weir_cells (key_hash, sequence, region, count, limit_seen, expires_at_ms, " +
      names + ", updated_at) VALUES ";
  s.cells_group = "(?,?,?,?,?,?,?,?,?,?," + batch_now + ")";
  s.presence_head =
      "INSERT INTO weir_presence (key_hash, region, until_ms, " + names + ", updated_at) VALUES ";
  s.presence_group = "(?,?,?,?,?,?,?," + batch_now + ")";
  // updated_at comes first, since MySQL assigns from left to right.
  if (sqlite) {
    s.cells_tail =
        " ON CONFLICT (key_hash, sequence, region) DO UPDATE SET updated_at = CASE WHEN "
        "excluded.count > count OR excluded.limit_seen < limit_seen THEN excluded.updated_at ELSE "
        "updated_at END, count = MAX(count, excluded.count), "
        "limit_seen = MIN(limit_seen, excluded.limit_seen)";
    s.presence_tail =
        " ON CONFLICT (key_hash, region) DO UPDATE SET updated_at = CASE WHEN "
        "excluded.until_ms > until_ms THEN excluded.updated_at ELSE updated_at END, "
        "until_ms = MAX(until_ms, excluded.until_ms)";
  } else {
    s.cells_tail =
        " ON DUPLICATE KEY UPDATE updated_at = IF(VALUES(count) > count OR "
        "VALUES(limit_seen) < limit_seen, VALUES(updated_at), updated_at), "
        "count = GREATEST(count, VALUES(count)), "
        "limit_seen = LEAST(limit_seen, VALUES(limit_seen))";
    s.presence_tail =
        " ON DUPLICATE KEY UPDATE updated_at = IF(VALUES(until_ms) > until_ms, "
        "VALUES(updated_at), updated_at), until_ms = GREATEST(until_ms, VALUES(until_ms))";
    s.rows_per_insert = 500;
  }

  s.changed_cells = "SELECT " + cell +
                    ", updated_at FROM weir_cells WHERE updated_at >= ? AND expires_at_ms > " +
                    now + " ORDER BY updated_at LIMIT ?";
  s.changed_presences = "SELECT " + presence +
                        ", updated_at FROM weir_presence WHERE updated_at >= ? AND until_ms > " +
                        now + " ORDER BY updated_at LIMIT ?";
  // Not as a row comparison: MariaDB would scan from the beginning of the table.
  s.page_of_cells = "SELECT " + cell +
                    ", key_hash FROM weir_cells WHERE key_hash >= ? AND (key_hash > ? OR "
                    "sequence > ? OR (sequence = ? AND region > ?)) AND expires_at_ms > " +
                    now + " ORDER BY key_hash, sequence, region LIMIT " + page;
  s.page_of_presences = "SELECT " + presence +
                        ", key_hash FROM weir_presence WHERE key_hash >= ? AND "
                        "(key_hash > ? OR region > ?) AND until_ms > " +
                        now + " ORDER BY key_hash, region LIMIT " + page;

  // Keeps the largest recent value of hidden_ppm, and the time at which it was written. MySQL
  // assigns from left to right.
  const std::string retention = std::to_string(kHiddenKept.count());
  s.heartbeat = "INSERT INTO weir_regions (region, hidden_ppm, hidden_at, heartbeat) VALUES (?,?," +
                now + "," + now + ")";
  if (sqlite) {
    const std::string counts =
        "CASE WHEN excluded.hidden_ppm >= hidden_ppm OR hidden_at < "
        "excluded.hidden_at - " +
        retention + " THEN excluded.";
    s.heartbeat += " ON CONFLICT (region) DO UPDATE SET hidden_ppm = " + counts +
                   "hidden_ppm ELSE hidden_ppm END, hidden_at = " + counts +
                   "hidden_at ELSE hidden_at END, heartbeat = excluded.heartbeat";
  } else {
    s.heartbeat +=
        " ON DUPLICATE KEY UPDATE hidden_ppm = IF(VALUES(hidden_ppm) >= hidden_ppm OR "
        "hidden_at < VALUES(hidden_at) - " +
        retention +
        ", VALUES(hidden_ppm), hidden_ppm), "
        "hidden_at = IF(hidden_ppm = VALUES(hidden_ppm), VALUES(hidden_at), hidden_at), "
        "heartbeat = VALUES(heartbeat)";
  }
  s.regions =
      "SELECT region, hidden_ppm, " + now + " - heartbeat FROM weir_regions ORDER BY region";
  s.settings_head = ignore + "weir_settings (name, value) VALUES ";
  s.settings = "SELECT name, value FROM weir_settings";

  s.insert_cleaning_lease =
      ignore + "weir_leases (name, holder, until_ms) VALUES ('cleaning', '', 0)";
  s.take_cleaning_lease = "UPDATE weir_leases SET holder = ?, until_ms = " + now + " + " +
                          std::to_string(kCleaningLease.count()) +
                          " WHERE name = 'cleaning' AND (holder = ? OR until_ms <= " + now + ")";
  s.cleaning_lease = "SELECT holder FROM weir_leases WHERE name = 'cleaning'";
  s.insert_region_lease = ignore + "weir_leases (name, holder, until_ms) VALUES (?, '', 0)";
  s.take_region_lease = "UPDATE weir_leases SET holder = ?, until_ms = " + now + " + " +
                        std::to_string(kRegionLeaseTime.count()) +
                        " WHERE name = ? AND (holder = ? OR until_ms <= " + now +
                        " OR (holder = ? AND until_ms = ?))";
  s.region_lease = "SELECT holder, until_ms FROM weir_leases WHERE name = ?";
  s.release_region_lease = "UPDATE weir_leases SET until_ms = 0 WHERE name = ? AND holder = ?";
  const auto clean = [&](const std::string& table, const std::string& end) {
    const std::string expired =
        " FROM " + table + " WHERE " + end + " <= " + now + " ORDER BY " + end + " LIMIT ?";
    return sqlite ? "DELETE FROM " + table + " WHERE rowid IN (SELECT rowid" + expired + ")"
                  : "DELETE" + expired;
  };
  s.clean_cells = clean("weir_cells", "expires_at_ms");
  s.clean_presences = clean("weir_presence", "until_ms");
  const auto expired = [&](const std::string& keys, const std::string& table,
                           const std::string& end) {
    return "SELECT " + keys + " FROM " + table + " WHERE " + end + " <= " + now + " ORDER BY " +
           end + " LIMIT ?";
  };
  s.expired_cells = expired("key_hash, region, sequence", "weir_cells", "expires_at_ms");
  s.expired_presences = expired("key_hash, region, 0", "weir_presence", "until_ms");
  s.delete_cells_head = "DELETE FROM weir_cells WHERE expires_at_ms <= " + now + " AND (";
  s.delete_cells_group = "(key_hash = ? AND region = ? AND sequence = ?)";
  s.delete_presences_head = "DELETE FROM weir_presence WHERE until_ms <= " + now + " AND (";
  s.delete_presences_group = "(key_hash = ? AND region = ? AND 0 = ?)";
  s.clean_regions = "DELETE FROM weir_regions WHERE heartbeat < " + now + " - " +
                    std::to_string(kRegionRetention.count());
  return s;
}

}  // namespace weir::ledgers
