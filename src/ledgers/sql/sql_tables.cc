// Creation of the tables, and the dry run that checks tables and permissions.

#include "ledgers/sql/settings.h"
#include "ledgers/sql/sql_publication.h"
#include "ledgers/sql/sql_store.h"

namespace weir::ledgers {
namespace {

constexpr int kMaxLockTries = 8;

SqlFailure wrong_version(int64_t version) {
  return {.kind = LedgerError::kOther,
          .detail = "its tables have version " + std::to_string(version) +
                    ", and this program supports version " + std::to_string(kSchemaVersion),
          .fix = "use the version of weir that created them, or another database"};
}

}  // namespace

SqlStore::Failure SqlStore::create_tables(int64_t& version) {
  const bool sqlite = dialect_ == Dialect::kSqlite;
  // One process at a time. The lock of a server ends with the connection.
  bool locked = sqlite;
  for (int tries = 0; tries < kMaxLockTries && !locked; ++tries) {
    const SqlStatement lock{.sql = "SELECT GET_LOCK('weir_migrate', 1)"};
    if (Failure failure = link_->run({&lock, 1}, [&](size_t, const SqlRow& row) {
          locked = row.number(0).value_or(0) == 1;
        })) {
      return failure;
    }
  }
  if (!locked) {
    return SqlFailure{.kind = LedgerError::kTimeout, .detail = "another process is migrating it"};
  }
  const std::vector<std::string> tables = schema_statements(dialect_);
  std::vector<SqlStatement> statements;
  if (sqlite) statements.push_back({.sql = texts_.begin});
  for (const std::string& table : tables) statements.push_back({.sql = table});
  statements.push_back({.sql = texts_.settings});
  statements.push_back({.sql = sqlite ? "COMMIT" : "SELECT RELEASE_LOCK('weir_migrate')"});
  const auto connection = sqlite ? SqlLink::Connection::kAny : SqlLink::Connection::kSame;
  Failure failure = link_->run(
      statements,
      [&](size_t statement, const SqlRow& row) {
        if (statement + 2 == statements.size() && row.bytes(0) == "schema_version") {
          version = number_in(row.bytes(1)).value_or(0);
        }
      },
      connection);
  if (failure) {
    const SqlStatement undo{.sql = sqlite ? "ROLLBACK" : "SELECT RELEASE_LOCK('weir_migrate')"};
    (void)link_->run({&undo, 1}, {}, SqlLink::Connection::kSame);
  } else if (version != kSchemaVersion) {
    failure = wrong_version(version);
  }
  return failure;
}

Result<int64_t> SqlStore::migrate() {
  int64_t version = 0;
  if (const Failure failure = create_tables(version)) return to_error(*failure);
  has_tables_ = true;
  return version;
}

Result<WallTime> SqlStore::dry_run() {
  WallTime now{};
  if (const Failure failure = dry_run(now)) return to_error(*failure);
  return now;
}

SqlStore::Failure SqlStore::dry_run(WallTime& now) {
  if (Failure failure = ensure_tables()) return failure;
  // A name that no other process uses, so that none waits for these rows.
  const std::string name = "check-" + holder_;
  const LedgerKey key{
      .workspace = "", .ns = "weir", .identifier = name, .duration = Millis(60'000)};
  const std::vector<LedgerRow> rows{
      {.key = key, .sequence = 0, .region = name, .count = 1, .limit_seen = 1}};
  const Publication publication = make_publication(name, {}, rows);
  const std::string_view holder = holder_;
  const std::string_view self = name;
  const std::string setting = texts_.settings_head + "(?,?)";
  const std::string reports = texts_.reports_head + texts_.reports_group + texts_.reports_tail;
  const std::string key_hash = hash_(key);
  const std::string_view hash = key_hash;
  const std::string feeds = texts_.heads + texts_.batches_branch;
  const SqlStatement begin[] = {
      {.sql = texts_.now}, {.sql = texts_.settings}, {.sql = texts_.begin}};
  std::vector<SqlStatement> statements;
  if (!texts_.set_now.empty()) statements.push_back({.sql = texts_.set_now});
  // Twice: the first time inserts the rows, the second time updates them.
  for (int i = 0; i < 2; ++i) {
    for (const auto& part : {publication.cells, publication.batch}) {
      statements.insert(statements.end(), part.begin(), part.end());
    }
  }
  for (const SqlStatement& each : std::initializer_list<SqlStatement>{
           {.sql = feeds, .values = {self, int64_t{1}, int64_t{0}, int64_t{1}}},
           {.sql = texts_.page_of_cells,
           .values = {self, self, std::string_view(), std::string_view(), int64_t{0}}},
           {.sql = texts_.heartbeat, .values = {self, int64_t{0}, int64_t{1}}},
           {.sql = reports, .values = {self, hash, self, self, int64_t{0}}},
           {.sql = setting, .values = {self, self}},
           {.sql = texts_.regions},
           {.sql = texts_.insert_cleaning_lease},
           {.sql = texts_.take_cleaning_lease, .values = {holder, holder}},
           {.sql = texts_.cleaning_lease},
           {.sql = texts_.clean_feed, .values = {int64_t{0}}},
           {.sql = texts_.clean_cells, .values = {int64_t{0}}},
           {.sql = texts_.clean_reports},
           {.sql = texts_.clean_regions}}) {
    statements.push_back(each);
  }
  int64_t version = 0;
  Failure failure = link_->run(begin, [&](size_t statement, const SqlRow& row) {
    if (statement == 0) now = WallTime(Millis(row.number(0).value_or(0)));
    if (statement == 1 && row.bytes(0) == "schema_version") {
      version = number_in(row.bytes(1)).value_or(0);
    }
  });
  if (!failure && version != kSchemaVersion) failure = wrong_version(version);
  if (!failure) failure = link_->run(statements, {}, SqlLink::Connection::kSame);
  const SqlStatement rollback{.sql = "ROLLBACK"};
  (void)link_->run({&rollback, 1}, {}, SqlLink::Connection::kSame);
  return failure;
}

}  // namespace weir::ledgers
