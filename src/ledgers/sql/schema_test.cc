// The schema in both dialects, and the hash that keys its tables.

#include "ledgers/sql/schema.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "ledgers/sql/key_hash.h"

namespace weir {
namespace {

// Ledgers store the hashes: another hash would be another tuple.
TEST(KeyHasher, IsStableAcrossVersions) {
  const ledgers::KeyHasher hash;
  const LedgerKey key{
      .workspace = "acme", .ns = "login", .identifier = "alice", .duration = Millis(60'000)};
  std::string hex;
  for (const char c : hash(key)) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  EXPECT_EQ(hex, "b10dcb70790d463563dede0bcfde8ce7c0b2fc95e82696e2c44ed32424f704d2");
  EXPECT_EQ(hash(key), hash(key));
}

// A schema without the differences between dialects: columns in order with a common type, and keys.
struct Description {
  std::map<std::string, std::vector<std::string>> tables;  // by name; the primary key last
  std::set<std::string> indexes;
  std::string version;
  friend bool operator==(const Description&, const Description&) = default;
};

Description describe(ledgers::Dialect dialect) {
  // Longer names first.
  const std::pair<std::regex, std::string> types[] = {
      {std::regex("BIGINT UNSIGNED|BIGINT|INTEGER"), "number"},
      {std::regex("\\(64\\)(?=[,)])"), ""},  // the prefix of an index
      {std::regex("VARBINARY\\([0-9]+\\)|BINARY\\(32\\)|MEDIUMBLOB|BLOB"), "bytes"}};
  Description description;
  for (std::string statement : ledgers::schema_statements(dialect)) {
    for (const auto& [type, common] : types)
      statement = std::regex_replace(statement, type, common);
    std::smatch found;
    if (std::regex_search(statement, found,
                          std::regex("^CREATE TABLE IF NOT EXISTS (\\w+) \\(\n([^]*)\n\\)"))) {
      const std::string name = found[1];
      std::istringstream lines(found[2]);
      for (std::string line; std::getline(lines, line);) {
        if (line.ends_with(',')) line.pop_back();
        std::smatch key;
        if (std::regex_match(line, key, std::regex("  KEY (\\w+) \\((.+)\\)"))) {
          description.indexes.insert(std::string(key[1]) + " on " + name + " of " +
                                     std::string(key[2]));
        } else {
          description.tables[name].push_back(line);
        }
      }
    } else if (std::regex_match(
                   statement, found,
                   std::regex("CREATE INDEX IF NOT EXISTS (\\w+) ON (\\w+) \\((.+)\\)"))) {
      description.indexes.insert(std::string(found[1]) + " on " + std::string(found[2]) + " of " +
                                 std::string(found[3]));
    } else if (std::regex_search(statement, found, std::regex("INTO weir_settings.*'([0-9]+)'"))) {
      description.version = found[1];
    } else if (statement.find("IGNORE INTO weir_catalog_head (id, revision)") != statement.npos) {
      // The row that every change of the catalog locks.
    } else {
      ADD_FAILURE() << "unknown statement: " << statement;
    }
  }
  return description;
}

TEST(Schema, IsEquivalentInBothDialects) {
  const Description sqlite = describe(ledgers::Dialect::kSqlite);
  const Description mysql = describe(ledgers::Dialect::kMySql);
  EXPECT_EQ(sqlite.tables, mysql.tables);
  EXPECT_EQ(sqlite.indexes, mysql.indexes);
  EXPECT_EQ(sqlite.version, mysql.version);
  // The description is not empty.
  EXPECT_EQ(sqlite.version, std::to_string(ledgers::kSchemaVersion));
  EXPECT_EQ(sqlite.tables.size(), 9U);
  EXPECT_EQ(sqlite.tables.at("weir_leases"),
            (std::vector<std::string>{"  name bytes NOT NULL", "  holder bytes NOT NULL",
                                      "  until_ms number NOT NULL", "  PRIMARY KEY (name)"}));
  EXPECT_EQ(
      sqlite.indexes,
      (std::set<std::string>{"weir_audit_workspace on weir_audit of workspace, revision",
                             "weir_catalog_revision on weir_catalog of revision, id",
                             "weir_cells_kept_until_ms on weir_cells of kept_until_ms",
                             "weir_cells_names on weir_cells of workspace, namespace, identifier",
                             "weir_feed_written_at_ms on weir_feed of written_at_ms"}));
  for (const auto dialect : {ledgers::Dialect::kSqlite, ledgers::Dialect::kMySql}) {
    EXPECT_EQ(ledgers::schema_sql(dialect).find('?'), std::string::npos);
  }
}

}  // namespace
}  // namespace weir
