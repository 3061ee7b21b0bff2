#include "ledgers/sql/schema.h"

#include "ledgers/rows.h"

namespace weir::ledgers {
namespace {

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
  [[nodiscard]] std::string large_bytes() const {
    return dialect == Dialect::kSqlite ? "BLOB" : "MEDIUMBLOB";
  }
  Dialect dialect;
};

}  // namespace

std::vector<std::string> schema_statements(Dialect dialect) {
  const ColumnTypes types(dialect);
  const bool sqlite = dialect == Dialect::kSqlite;
  std::vector<std::string> statements;
  std::vector<std::string> indexes;
  // Each index has a name and its columns.
  const auto table = [&](const std::string& name, std::string columns,
                         const std::vector<std::pair<std::string, std::string>>& indexed) {
    for (const auto& [title, indexed_columns] : indexed) {
      const std::string index = name + "_" + title;
      if (sqlite) {
        indexes.push_back("CREATE INDEX IF NOT EXISTS " + index + " ON " + name + " (" +
                          indexed_columns + ")");
      } else {
        columns += ",\n  KEY " + index + " (" + indexed_columns + ")";
      }
    }
    statements.push_back("CREATE TABLE IF NOT EXISTS " + name + " (\n" + columns + "\n)" +
                         (sqlite ? "" : " ENGINE=InnoDB"));
  };
  const std::string region = "  region " + types.bytes(kMaxRegionBytes) + " NOT NULL,\n";
  const std::string number = " " + types.number() + " NOT NULL,\n";
  const std::string amount = " " + types.amount() + " NOT NULL,\n";
  // The largest of a span of time that began then, and of the span before.
  const std::string reported = "  unpublished_ppm" + amount + "  unpublished_before_ppm" + amount +
                               "  unpublished_at_ms" + number;
  const std::string name = " " + types.bytes(kMaxNameBytes) + " NOT NULL,\n";
  // A prefix of a long name is enough to find it.
  const std::string prefix = sqlite ? "" : "(64)";

  table("weir_cells",
        region + "  key_hash " + types.hash() + " NOT NULL,\n  sequence" + number + "  count" +
            amount + "  limit_seen" + amount + "  leased_until_ms" + number + "  kept_until_ms" +
            number + "  written_at_ms" + number + "  detail " + types.bytes(1024) +
            " NULL,\n  workspace" + name + "  namespace" + name + "  identifier" + name +
            "  duration_ms" + number + "  PRIMARY KEY (region, key_hash, sequence)",
        {{"kept_until_ms", "kept_until_ms"},
         {"names", "workspace" + prefix + ", namespace" + prefix + ", identifier" + prefix}});
  table("weir_feed",
        region + "  epoch" + amount + "  number" + amount + "  written_at_ms" + number + "  body " +
            types.large_bytes() + " NOT NULL,\n  PRIMARY KEY (region, epoch, number)",
        {{"written_at_ms", "written_at_ms"}});
  table("weir_regions",
        region + "  epoch" + amount + "  head" + amount + reported + "  heartbeat_ms" + number +
            "  PRIMARY KEY (region)",
        {});
  table("weir_reports",
        region + "  key_hash " + types.hash() + " NOT NULL,\n  workspace" + name + "  namespace" +
            name + reported + "  PRIMARY KEY (region, key_hash)",
        {});
  table("weir_settings",
        "  name " + types.bytes(64) + " NOT NULL,\n  value " + types.bytes(255) +
            " NOT NULL,\n  PRIMARY KEY (name)",
        {});
  table("weir_leases",
        "  name " + types.bytes(64) + " NOT NULL,\n  holder " + types.bytes(64) +
            " NOT NULL,\n  until_ms" + number + "  PRIMARY KEY (name)",
        {});
  const std::string id = " " + types.bytes(64) + " NOT NULL,\n";
  table("weir_catalog_head", "  id" + number + "  revision" + amount + "  PRIMARY KEY (id)", {});
  table("weir_catalog",
        "  id" + id + "  kind " + types.bytes(1) + " NOT NULL,\n  workspace" + id + "  parent" +
            id + "  name" + name + "  body " + types.large_bytes() + " NOT NULL,\n  deleted" +
            number + "  revision" + amount + "  changed_at_ms" + number + "  PRIMARY KEY (id)",
        {{"revision", "revision, id"}});
  table("weir_audit",
        "  revision" + amount + "  position" + number + "  at_ms" + number + "  workspace" + id +
            "  actor" + id + "  action" + id + "  target" + id + "  detail " + types.bytes(4096) +
            " NOT NULL,\n  PRIMARY KEY (revision, position)",
        {{"workspace", "workspace, revision"}});
  statements.insert(statements.end(), indexes.begin(), indexes.end());
  statements.push_back(std::string(sqlite ? "INSERT OR IGNORE" : "INSERT IGNORE") +
                       " INTO weir_catalog_head (id, revision) VALUES (0, 0)");
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

}  // namespace weir::ledgers
