#include "catalog/sql_catalog.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "ledgers/sql/mysql_link.h"
#include "ledgers/sql/schema.h"
#include "ledgers/sql/sql_errors.h"
#include "ledgers/sql/sqlite_link.h"
#include "platform/entropy.h"

namespace weir::catalog {
namespace {

using ledgers::Dialect;
using ledgers::LedgerError;
using ledgers::SqlFailure;
using ledgers::SqlLink;
using ledgers::SqlRow;
using ledgers::SqlStatement;
using ledgers::SqlValue;

constexpr int kMaxTries = 5;
constexpr std::string_view kColumns = "kind, id, workspace, parent, name, body, deleted, revision";

class SqlCatalog final : public CatalogStore {
 public:
  SqlCatalog(Dialect dialect, std::unique_ptr<SqlLink> link, std::string address)
      : sqlite_(dialect == Dialect::kSqlite),
        dialect_(dialect),
        link_(std::move(link)),
        address_(std::move(address)),
        has_tables_(!sqlite_) {}

  Result<uint64_t> write(std::span<const CatalogWrite> writes) override {
    uint64_t revision = 0;
    std::optional<Error> error;
    for (int tries = 0; tries < kMaxTries; ++tries) {
      bool again = false;
      error = try_write(writes, revision, again);
      if (!again) break;
    }
    if (error) return std::move(*error);
    return revision;
  }

  Result<Heads> read_heads(uint64_t known) override {
    Heads heads;
    // The nonce of a transaction is the position of its first entry in the audit log.
    const SqlStatement read{
        .sql =
            "SELECT revision, (SELECT MIN(position) FROM weir_audit WHERE weir_audit.revision ="
            " weir_catalog_head.revision), (SELECT MIN(position) FROM weir_audit WHERE"
            " weir_audit.revision = ?) FROM weir_catalog_head WHERE id = 0",
        .values = {static_cast<int64_t>(known)}};
    const auto failure = run({&read, 1}, [&](size_t, const SqlRow& row) {
      heads = {.last = {.revision = amount(row, 0), .nonce = amount(row, 1)},
               .known_nonce = amount(row, 2)};
    });
    if (failure) return error_of(*failure);
    return heads;
  }

  Result<std::vector<CatalogRow>> read_after(const CatalogPosition& position,
                                             size_t most) override {
    std::vector<CatalogRow> rows;
    const std::string sql = "SELECT " + std::string(kColumns) + " FROM weir_catalog" +
                            by_index("weir_catalog_revision") + " WHERE " + behind("id", '>') +
                            " ORDER BY revision, id LIMIT ?";
    SqlStatement read{.sql = sql};
    add_position(read, static_cast<int64_t>(position.revision), std::string_view(position.id));
    read.values.emplace_back(static_cast<int64_t>(most));
    const auto failure =
        run({&read, 1}, [&](size_t, const SqlRow& row) { rows.push_back(row_in(row)); });
    if (failure) return error_of(*failure);
    return rows;
  }

  Result<std::optional<CatalogRow>> read_row(const std::string& id) override {
    std::optional<CatalogRow> found;
    const std::string sql = "SELECT " + std::string(kColumns) + " FROM weir_catalog WHERE id = ?";
    const SqlStatement read{.sql = sql, .values = {std::string_view(id)}};
    const auto failure = run({&read, 1}, [&](size_t, const SqlRow& row) { found = row_in(row); });
    if (failure) return error_of(*failure);
    return found;
  }

  Result<std::vector<AuditEntry>> read_audit(const std::string& workspace,
                                             const AuditPosition& before, size_t most) override {
    std::vector<AuditEntry> entries;
    const std::string sql =
        "SELECT revision, at_ms, workspace, actor, action, target, detail, position FROM"
        " weir_audit" +
        by_index(workspace.empty() ? "PRIMARY" : "weir_audit_workspace") + " WHERE " +
        (workspace.empty() ? "" : "workspace = ? AND ") + behind("position", '<') +
        " ORDER BY revision DESC, position DESC LIMIT ?";
    SqlStatement read{.sql = sql};
    if (!workspace.empty()) read.values.emplace_back(std::string_view(workspace));
    add_position(read, static_cast<int64_t>(before.revision),
                 static_cast<int64_t>(before.position));
    read.values.emplace_back(static_cast<int64_t>(most));
    const auto failure = run({&read, 1}, [&](size_t, const SqlRow& row) {
      entries.push_back({.revision = amount(row, 0),
                         .position = amount(row, 7),
                         .at = WallTime(Millis(row.number(1).value_or(0))),
                         .workspace = std::string(row.bytes(2)),
                         .actor = std::string(row.bytes(3)),
                         .action = std::string(row.bytes(4)),
                         .target = std::string(row.bytes(5)),
                         .detail = std::string(row.bytes(6))});
    });
    if (failure) return error_of(*failure);
    return entries;
  }

  Result<CleanedRows> clean_rows(const std::string& after, WallTime before, size_t most) override {
    CleanedRows cleaned;
    const std::string expired =
        "((kind IN (" + literal("o") + ", " + literal("k") +
        ") AND deleted = 1 AND changed_at_ms < ?) OR (kind = " + literal("r") +
        " AND changed_at_ms < ?))";
    const std::string page = "SELECT MAX(id), COUNT(*), SUM(" + expired +
                             ") FROM (SELECT id, kind, deleted, changed_at_ms FROM weir_catalog" +
                             by_index("PRIMARY") + " WHERE id > ? ORDER BY id LIMIT ?) AS page";
    const int64_t deleted_before = before.time_since_epoch().count();
    const int64_t reset_before = deleted_before - kResetKept.count();
    const SqlStatement look{.sql = page,
                            .values = {deleted_before, reset_before, std::string_view(after),
                                       static_cast<int64_t>(most)}};
    std::string last;
    size_t seen = 0;
    uint64_t old = 0;
    auto failure = run({&look, 1}, [&](size_t, const SqlRow& row) {
      last = std::string(row.bytes(0));
      seen = amount(row, 1);
      old = sum(row, 2);
    });
    if (failure) return error_of(*failure);
    if (seen == most) cleaned.last = last;
    if (old == 0) return cleaned;
    const std::string sql = "DELETE FROM weir_catalog WHERE id > ? AND id <= ? AND " + expired;
    const SqlStatement remove{
        .sql = sql,
        .values = {std::string_view(after), std::string_view(last), deleted_before, reset_before}};
    failure = run({&remove, 1}, {});
    if (failure) return error_of(*failure);
    cleaned.deleted = link_->affected();
    return cleaned;
  }

  Result<CleanedAudit> clean_audit(uint64_t after, const AuditBounds& bounds,
                                   size_t most) override {
    CleanedAudit cleaned{.last = after};
    const std::string expired =
        "(at_ms < ? OR (action = " + literal("identifier.reset") + " AND revision < ?))";
    const std::string page = "SELECT MAX(revision), COUNT(*), SUM(" + expired +
                             "), MAX(at_ms), (SELECT revision FROM weir_catalog_head WHERE id = 0)"
                             " FROM (SELECT revision, at_ms, action FROM weir_audit" +
                             by_index("PRIMARY") +
                             " WHERE revision > ? ORDER BY revision, position LIMIT ?) AS page";
    const int64_t before = bounds.before.time_since_epoch().count();
    const auto resets = static_cast<int64_t>(bounds.resets_before);
    const auto begin = static_cast<int64_t>(after);
    const SqlStatement look{.sql = page,
                            .values = {before, resets, begin, static_cast<int64_t>(most)}};
    uint64_t last = 0;
    size_t seen = 0;
    uint64_t old = 0;
    int64_t newest = 0;
    uint64_t head = 0;
    auto failure = run({&look, 1}, [&](size_t, const SqlRow& row) {
      last = amount(row, 0);
      seen = amount(row, 1);
      old = sum(row, 2);
      newest = row.number(3).value_or(0);
      head = amount(row, 4);
    });
    if (failure) return error_of(*failure);
    // Behind these no entry has expired: times grow with the revisions.
    const bool ended = seen < most || (last >= bounds.resets_before && newest >= before);
    if (!ended) cleaned.last = last;
    cleaned.more = !ended;
    if (old == 0) return cleaned;
    const std::string sql =
        "DELETE FROM weir_audit WHERE revision > ? AND revision <= ? AND " + expired;
    const SqlStatement remove{
        .sql = sql,
        .values = {begin, static_cast<int64_t>(std::min(last, std::max<uint64_t>(head, 1) - 1)),
                   before, resets}};
    failure = run({&remove, 1}, {});
    if (failure) return error_of(*failure);
    cleaned.deleted = link_->affected();
    return cleaned;
  }

 private:
  [[nodiscard]] static uint64_t amount(const SqlRow& row, size_t column) {
    return static_cast<uint64_t>(row.number(column).value_or(0));
  }
  // A server returns a sum as a decimal number.
  [[nodiscard]] static uint64_t sum(const SqlRow& row, size_t column) {
    if (const auto number = row.number(column)) return static_cast<uint64_t>(*number);
    const std::string_view text = row.bytes(column);
    return text.empty() || text == "0" ? 0 : 1;
  }
  [[nodiscard]] static CatalogRow row_in(const SqlRow& row) {
    const std::string_view kind = row.bytes(0);
    return {.kind = kind.empty() ? '\0' : kind[0],
            .id = std::string(row.bytes(1)),
            .workspace = std::string(row.bytes(2)),
            .parent = std::string(row.bytes(3)),
            .name = std::string(row.bytes(4)),
            .body = std::string(row.bytes(5)),
            .deleted = row.number(6).value_or(0) != 0,
            .revision = amount(row, 7)};
  }
  // The rows behind a revision and another column, which add_position() adds to the values. Each
  // store finds the first one by an index: SQLite by a comparison of both columns, MariaDB by two
  // ranges of one index, which it uses only if the statement names it. With the form of the other
  // one, each would read all rows for every page.
  [[nodiscard]] std::string behind(const std::string& column, char compare) const {
    if (sqlite_) return "(revision, " + column + ") " + compare + " (?, ?)";
    return std::string("(revision ") + compare + " ? OR (revision = ? AND " + column + " " +
           compare + " ?))";
  }
  void add_position(SqlStatement& read, int64_t revision, const SqlValue& second) const {
    read.values.emplace_back(revision);
    if (!sqlite_) read.values.emplace_back(revision);
    read.values.push_back(second);
  }
  [[nodiscard]] std::string by_index(const std::string& name) const {
    return sqlite_ ? "" : " FORCE INDEX (" + name + ")";
  }
  [[nodiscard]] std::string literal(const std::string& text) const {
    return sqlite_ ? "CAST('" + text + "' AS BLOB)" : "'" + text + "'";
  }
  [[nodiscard]] std::string now() const {
    return sqlite_ ? "weir_now()" : "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)";
  }

  // In several messages: the values of the last one contain the revision.
  std::optional<Error> try_write(std::span<const CatalogWrite> writes, uint64_t& revision,
                                 bool& again) {
    const SqlStatement begin[] = {
        {.sql = sqlite_ ? "BEGIN IMMEDIATE" : "START TRANSACTION"},
        {.sql = "UPDATE weir_catalog_head SET revision = revision + 1 WHERE id = 0"},
        {.sql = "SELECT revision FROM weir_catalog_head WHERE id = 0"}};
    auto failure = run(begin, [&](size_t, const SqlRow& row) { revision = amount(row, 0); });
    if (!failure && revision == 0) {
      failure = SqlFailure{.kind = LedgerError::kMissingTables,
                           .detail = "the table weir_catalog_head is empty"};
    }
    bool as_expected = true;
    if (!failure) failure = compare_rows(writes, as_expected);
    if (!failure && as_expected) failure = write_rows(writes, revision);
    if (!failure && as_expected) return std::nullopt;
    const SqlStatement undo{.sql = "ROLLBACK"};
    (void)link_->run({&undo, 1}, {}, SqlLink::Connection::kSame);
    if (!failure) {
      return Error{.code = ErrorCode::kInvalidArgument,
                   .field = "expected",
                   .detail = "the record was changed or deleted meanwhile",
                   .fix = "read it again"};
    }
    again = failure->kind == LedgerError::kDeadlock;
    return error_of(*failure);
  }

  // Whether the rows are those that the writes expect. The head is locked, so they stay so.
  std::optional<SqlFailure> compare_rows(std::span<const CatalogWrite> writes, bool& as_expected) {
    std::vector<const CatalogRow*> expected;
    std::vector<SqlStatement> reads;
    for (const CatalogWrite& write : writes) {
      if (!write.expected) continue;
      expected.push_back(&*write.expected);
      reads.push_back({.sql = "SELECT workspace, parent, name, body, deleted FROM weir_catalog"
                              " WHERE id = ?",
                       .values = {std::string_view(write.expected->id)}});
    }
    if (reads.empty()) return std::nullopt;
    std::vector<bool> same(reads.size());
    auto failure = link_->run(
        reads,
        [&](size_t at, const SqlRow& row) {
          const CatalogRow& is = *expected[at];
          same[at] = row.bytes(0) == is.workspace && row.bytes(1) == is.parent &&
                     row.bytes(2) == is.name && row.bytes(3) == is.body &&
                     (row.number(4).value_or(0) != 0) == is.deleted;
        },
        SqlLink::Connection::kSame);
    as_expected = std::ranges::all_of(same, std::identity());
    return failure;
  }

  std::optional<SqlFailure> write_rows(std::span<const CatalogWrite> writes, uint64_t revision) {
    const std::string insert = " INTO weir_catalog (" + std::string(kColumns) +
                               ", changed_at_ms) VALUES (?,?,?,?,?,?,?,?," + now() + ")";
    const std::string keep = (sqlite_ ? "INSERT OR IGNORE" : "INSERT IGNORE") + insert;
    std::string replace = "INSERT" + insert;
    replace += sqlite_ ? " ON CONFLICT (id) DO UPDATE SET " : " ON DUPLICATE KEY UPDATE ";
    bool first = true;
    for (const std::string column :
         {"workspace", "parent", "name", "body", "deleted", "revision", "changed_at_ms"}) {
      const std::string value = sqlite_ ? "excluded." + column : "VALUES(" + column + ")";
      // A key that was revoked stays so, whatever another process knew of it.
      const std::string larger = (sqlite_ ? "MAX(" : "GREATEST(") +
                                 (sqlite_ ? "weir_catalog.deleted" : std::string("deleted")) +
                                 ", " + value + ")";
      replace += (first ? "" : ", ") + column + " = " +
                 (column == "deleted"
                      ? "CASE WHEN " + std::string(sqlite_ ? "weir_catalog." : "") +
                            "kind = " + literal("k") + " THEN " + larger + " ELSE " + value + " END"
                      : value);
      first = false;
    }
    const std::string audit =
        "INSERT INTO weir_audit (revision, position, at_ms, workspace, actor, action, target,"
        " detail) VALUES (?,?," +
        now() + ",?,?,?,?,?)";
    std::vector<SqlStatement> statements;
    const auto number = static_cast<int64_t>(revision);
    int64_t position = first_position();
    for (const CatalogWrite& write : writes) {
      const CatalogRow& row = write.row;
      statements.push_back(
          {.sql = write.existing == Existing::kKeep ? keep : replace,
           .values = {std::string_view(&row.kind, 1), std::string_view(row.id),
                      std::string_view(row.workspace), std::string_view(row.parent),
                      std::string_view(row.name), std::string_view(row.body),
                      int64_t{row.deleted ? 1 : 0}, number}});
      const AuditEntry& entry = write.audit;
      statements.push_back(
          {.sql = audit,
           .values = {number, position++, std::string_view(entry.workspace),
                      std::string_view(entry.actor), std::string_view(entry.action),
                      std::string_view(entry.target), std::string_view(entry.detail)}});
    }
    statements.push_back({.sql = "COMMIT"});
    return link_->run(statements, {}, SqlLink::Connection::kSame);
  }

  // Random, so that it is the nonce of the transaction, with space for those behind it.
  [[nodiscard]] static int64_t first_position() {
    constexpr unsigned kBitsBehind = 20;
    return static_cast<int64_t>((platform::entropy() >> 24 | 1) << kBitsBehind);
  }

  std::optional<SqlFailure> run(std::span<const SqlStatement> statements,
                                const SqlLink::EachRow& each) {
    if (auto failure = ensure_tables()) return failure;
    auto failure = link_->run(statements, each);
    if (failure && failure->kind == LedgerError::kMissingTables && sqlite_) has_tables_ = false;
    return failure;
  }

  // Only those of a file: an operator creates those of a server.
  std::optional<SqlFailure> ensure_tables() {
    if (has_tables_) return std::nullopt;
    const std::vector<std::string> texts = ledgers::schema_statements(dialect_);
    std::vector<SqlStatement> statements{{.sql = "BEGIN IMMEDIATE"}};
    for (const std::string& text : texts) statements.push_back({.sql = text});
    statements.push_back({.sql = "COMMIT"});
    auto failure = link_->run(statements, {});
    if (failure) {
      const SqlStatement undo{.sql = "ROLLBACK"};
      (void)link_->run({&undo, 1}, {}, SqlLink::Connection::kSame);
    }
    has_tables_ = !failure;
    return failure;
  }

  [[nodiscard]] Error error_of(const SqlFailure& failure) const {
    return ledgers::error_of(failure, dialect_, address_);
  }

  const bool sqlite_;
  const Dialect dialect_;
  const std::unique_ptr<SqlLink> link_;
  const std::string address_;
  bool has_tables_;
};

}  // namespace

std::unique_ptr<CatalogStore> make_sql_catalog(ledgers::LedgerKind dialect,
                                               std::unique_ptr<SqlLink> link, std::string address) {
  return std::make_unique<SqlCatalog>(dialect, std::move(link), std::move(address));
}

std::unique_ptr<CatalogStore> make_catalog_store(const Clock& clock,
                                                 const ledgers::LedgerAddress& address) {
  auto link = address.kind == ledgers::LedgerKind::kSqlite
                  ? ledgers::make_sqlite_link(clock, address.path)
                  : ledgers::make_mysql_link(clock, address, {});
  return make_sql_catalog(address.kind, std::move(link), ledgers::to_string(address));
}

}  // namespace weir::catalog
