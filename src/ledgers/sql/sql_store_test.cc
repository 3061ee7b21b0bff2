// The ledger contract in an SQLite file, and the behaviour of a store on failures.

#include "ledgers/sql/sql_store.h"

#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "ledgers/sql/make_ledger.h"
#include "ledgers/sql/schema.h"
#include "ledgers/sql/sqlite_link.h"
#include "tests/contracts/ledger_contract.h"
#include "tests/servers/temporary_folder.h"

namespace weir {
namespace {

using ledgers::LedgerStore;

// A ledger file in its own folder.
class Folder {
 public:
  [[nodiscard]] std::string file() const { return folder_.path() / "ledger.db"; }

 private:
  const servers::TemporaryFolder folder_{"ledger"};
};

std::unique_ptr<LedgerStore> open(const Clock& clock, const Folder& folder, uint64_t seed = 1) {
  return ledgers::make_store(clock, {.kind = ledgers::LedgerKind::kSqlite, .path = folder.file()},
                             {.seed = seed, .pause = [](Millis) {}});
}

// Runs a statement on the file over another connection.
void execute(const Folder& folder, const std::string& sql) {
  sqlite3* file = nullptr;
  ASSERT_EQ(sqlite3_open(folder.file().c_str(), &file), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(file, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(file);
  sqlite3_close(file);
}

// A store as a GlobalLedger, without threads.
class DirectLedger final : public GlobalLedger {
 public:
  explicit DirectLedger(std::unique_ptr<LedgerStore> store) : store_(std::move(store)) {}
  void publish(LedgerNews batch, PublishReply reply) override { reply(store_->publish(batch)); }
  void changes_since(LedgerCursor cursor, ChangesReply reply) override {
    reply(store_->changes_since(cursor));
  }
  void read_page(LedgerPosition position, PageReply reply) override {
    reply(store_->read_page(position));
  }
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override {
    reply(store_->heartbeat(self, rules));
  }
  void clean(size_t most, CleaningReply reply) override { reply(store_->clean(most)); }

 private:
  std::unique_ptr<LedgerStore> store_;
};

struct SqliteMaker {
  using Clock = doubles::HandClock;
  static constexpr bool kTimeIsReal = false;
  explicit SqliteMaker(Clock& at) : clock(at) {}
  [[nodiscard]] std::shared_ptr<GlobalLedger> make() const {
    return std::make_shared<DirectLedger>(open(clock, folder, 1));
  }
  [[nodiscard]] std::shared_ptr<GlobalLedger> make_another() const {
    return std::make_shared<DirectLedger>(open(clock, folder, 2));
  }
  void settle() const {}
  void age(Millis by) { clock.advance(by); }
  Clock& clock;
  Folder folder;
};

}  // namespace

namespace contracts {
INSTANTIATE_TYPED_TEST_SUITE_P(SqliteStore, LedgerContract, SqliteMaker);
}

namespace {

using contracts::row_of;

TEST(SqliteStore, CreatesItsTablesOnce) {
  const doubles::HandClock clock;
  const Folder folder;
  const auto store = open(clock, folder);
  EXPECT_TRUE(store->publish({.rows = {row_of(1, clock.now().wall)}, .presences = {}}));
  EXPECT_EQ(store->migrate().value(), ledgers::kSchemaVersion);
  EXPECT_EQ(open(clock, folder)->migrate().value(), ledgers::kSchemaVersion);
  EXPECT_EQ(store->read_page({})->news.rows.size(), 1u);
}

TEST(SqliteStore, RejectsTablesOfANewerVersion) {
  const doubles::HandClock clock;
  const Folder folder;
  ASSERT_TRUE(open(clock, folder)->migrate());
  execute(folder,
          "UPDATE weir_settings SET value = '99' WHERE name = CAST('schema_version' AS BLOB)");
  const auto version = open(clock, folder)->migrate();
  ASSERT_FALSE(version);
  EXPECT_NE(version.error().detail.find("version 99"), std::string::npos) << version.error().detail;
  EXPECT_FALSE(open(clock, folder)->time());
}

TEST(SqliteStore, OmitsCorruptRows) {
  const doubles::HandClock clock;
  const Folder folder;
  const auto store = open(clock, folder);
  ASSERT_TRUE(store->publish({.rows = {row_of(1, clock.now().wall)}, .presences = {}}));
  for (const char* corruption :
       {"expires_at_ms = expires_at_ms + 1", "expires_at_ms = expires_at_ms - 1, count = -1",
        "count = 'many'", "count = 1, sequence = 9223372036854775807",
        "sequence = -9223372036854775807"}) {
    execute(folder, std::string("UPDATE weir_cells SET ") + corruption);
    const auto page = store->read_page({});
    ASSERT_TRUE(page);
    EXPECT_EQ(page->invalid, 1u) << corruption;
    EXPECT_TRUE(page->news.rows.empty()) << corruption;
  }
}

TEST(SqliteStore, ReplacesUnreadableRulesByItsOwn) {
  const doubles::HandClock clock;
  const Folder folder;
  const auto store = open(clock, folder);
  ASSERT_TRUE(store->heartbeat({.region = "east"}, {.hidden_permille = 100}));
  for (const char* bad : {"", "x", "-1", "12x", "1001", "99999999999999999999"}) {
    execute(folder, std::string("UPDATE weir_settings SET value = CAST('") + bad +
                        "' AS BLOB) WHERE name = CAST('hidden_permille' AS BLOB)");
    EXPECT_EQ(store->heartbeat({.region = "west"}, {.hidden_permille = 200})->rules.hidden_permille,
              200u)
        << bad;
  }
  execute(folder, "UPDATE weir_settings SET value = 'x' WHERE name = CAST('policy' AS BLOB)");
  EXPECT_EQ(store->heartbeat({.region = "west"}, {.policy = PublishPolicy::kFloor})->rules.policy,
            PublishPolicy::kFloor);
}

TEST(SqliteStore, ReportsAMissingFolder) {
  const doubles::HandClock clock;
  const auto store = ledgers::make_store(clock, {.path = "/nowhere/ledger.db"}, {.seed = 1});
  const auto time = store->time();
  ASSERT_FALSE(time);
  EXPECT_EQ(time.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(time.error().retry, Retry::kMayHelp);
  EXPECT_EQ(store->last_error_kind(), telemetry::LedgerError::kUnreachable);
}

TEST(SqliteStore, ReportsRowsThatATableRefuses) {
  const doubles::HandClock clock;
  const Folder folder;
  ASSERT_TRUE(open(clock, folder)->migrate());
  const auto store = open(clock, folder);
  execute(folder,
          "CREATE TRIGGER no BEFORE INSERT ON weir_cells BEGIN SELECT RAISE(FAIL, 'no'); END");
  const auto refused = store->publish({.rows = {row_of(1, clock.now().wall)}, .presences = {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().retry, Retry::kPointless);
  EXPECT_EQ(store->last_error_kind(), telemetry::LedgerError::kBadRows);
}

// A link that fails the next `times` calls whose text starts with `prefix`.
class FailingLink final : public ledgers::SqlLink {
 public:
  explicit FailingLink(std::unique_ptr<SqlLink> inner) : inner_(std::move(inner)) {}
  std::optional<ledgers::SqlFailure> run(std::span<const ledgers::SqlStatement> statements,
                                         const EachRow& each, Connection connection) override {
    if (statements[0].sql.starts_with(prefix) && times > 0) {
      --times;
      return ledgers::SqlFailure{.kind = kind, .detail = "injected"};
    }
    return inner_->run(statements, each, connection);
  }
  [[nodiscard]] uint64_t affected() const override { return inner_->affected(); }
  [[nodiscard]] bool ends_long_statements() const override { return true; }
  [[nodiscard]] uint64_t connections() const override { return inner_->connections(); }

  int times = 0;
  std::string prefix = "COMMIT";
  telemetry::LedgerError kind = telemetry::LedgerError::kDeadlock;

 private:
  std::unique_ptr<SqlLink> inner_;
};

// A store on a failing link.
class SqlStore : public ::testing::Test {
 protected:
  SqlStore() { EXPECT_TRUE(store_.migrate()); }

  doubles::HandClock clock_;
  const Folder folder_;
  std::vector<Millis> pauses_;
  std::unique_ptr<FailingLink> made_ =
      std::make_unique<FailingLink>(ledgers::make_sqlite_link(clock_, folder_.file()));
  FailingLink& link_ = *made_;
  ledgers::SqlStore store_{clock_,
                           ledgers::Dialect::kSqlite,
                           std::move(made_),
                           "sqlite:x",
                           {.seed = 1, .pause = [this](Millis span) { pauses_.push_back(span); }}};
};

TEST_F(SqlStore, RetriesAfterADeadlock) {
  const LedgerNews batch{
      .rows = {row_of(1, clock_.now().wall)},
      .presences = {{.key = row_of(1, {}).key, .region = "east", .until = clock_.now().wall}}};
  link_.times = 7;
  EXPECT_TRUE(store_.publish(batch));
  EXPECT_EQ(store_.retries(), 7u);
  EXPECT_EQ(pauses_.size(), 7u);
  link_.times = 100;
  const auto failed = store_.publish(batch);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().retry, Retry::kMayHelp);
  EXPECT_EQ(store_.last_error_kind(), telemetry::LedgerError::kDeadlock);
  EXPECT_EQ(store_.retries(), 14u);
  // The failed transaction was rolled back, so the next one can begin.
  link_.times = 0;
  EXPECT_TRUE(store_.publish(batch));
}

TEST_F(SqlStore, MapsFailuresToErrors) {
  link_.prefix = "SELECT";
  using telemetry::LedgerError;
  const auto error_of = [&](LedgerError kind) {
    link_.kind = kind;
    link_.times = 1;
    return store_.time().error();
  };
  for (const auto kind :
       {LedgerError::kUnreachable, LedgerError::kReadOnly, LedgerError::kFull,
        LedgerError::kMissingTables, LedgerError::kRefused, LedgerError::kOther}) {
    EXPECT_EQ(error_of(kind).code, ErrorCode::kUnavailable);
    EXPECT_EQ(error_of(kind).retry, Retry::kMayHelp);
  }
  EXPECT_EQ(error_of(LedgerError::kTimeout).code, ErrorCode::kTimeout);
  EXPECT_EQ(error_of(LedgerError::kBadRows).retry, Retry::kPointless);
  EXPECT_EQ(error_of(LedgerError::kMissingTables).fix, "run: weir migrate --ledger sqlite:x");
}

TEST_F(SqlStore, SuggestsRemediesForAFile) {
  link_.prefix = "SELECT";
  using telemetry::LedgerError;
  const auto fix_of = [&](LedgerError kind) {
    link_.kind = kind;
    link_.times = 1;
    return store_.time().error().fix;
  };
  EXPECT_NE(fix_of(LedgerError::kCorrupt).find("move the file away"), std::string::npos);
  EXPECT_NE(fix_of(LedgerError::kFull).find("free space on its disk"), std::string::npos);
  EXPECT_NE(fix_of(LedgerError::kUnreachable).find("read-only"), std::string::npos);
  for (const auto kind : {LedgerError::kCorrupt, LedgerError::kFull, LedgerError::kReadOnly,
                          LedgerError::kRefused, LedgerError::kUnreachable}) {
    EXPECT_EQ(fix_of(kind).find("password"), std::string::npos);
  }
}

// The same request would time out again, and import would stop for good.
TEST_F(SqlStore, RequestsFewerChangesAfterATimeout) {
  const LedgerCursor begin = store_.changes_since({})->next;
  constexpr size_t kHalf = ledgers::kMaxChanges / 2;
  constexpr size_t kRows = kHalf + 4000;
  for (size_t at = 0; at < kRows; at += 1000) {
    LedgerNews batch;
    for (size_t i = at; i < at + 1000; ++i) {
      batch.rows.push_back(row_of(1, clock_.now().wall));
      batch.rows.back().key.identifier = std::to_string(i);
    }
    ASSERT_TRUE(store_.publish(batch));
    clock_.advance(Millis(1));
  }
  link_.prefix = "SELECT";
  link_.kind = telemetry::LedgerError::kTimeout;
  link_.times = 1;
  EXPECT_FALSE(store_.changes_since(begin));

  const auto first = store_.changes_since(begin);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->news.rows.size(), kHalf);
  ASSERT_TRUE(first->rest);
  const auto rest = store_.changes_since(*first->rest);
  ASSERT_TRUE(rest);
  EXPECT_FALSE(rest->rest);
  std::set<std::string> received;
  for (const auto& part : {*first, *rest}) {
    for (const LedgerRow& row : part.news.rows) received.insert(row.key.identifier);
  }
  EXPECT_EQ(received.size(), kRows);

  // The limit grows again after a success, and never falls below one page.
  EXPECT_FALSE(store_.changes_since(begin)->rest);
  for (int i = 0; i < 10; ++i) {
    link_.times = 1;
    EXPECT_FALSE(store_.changes_since(begin));
  }
  EXPECT_EQ(store_.changes_since(begin)->news.rows.size(), ledgers::kRowsPerPage);
}

TEST(SqliteFile, IsPrivate) {
  const Folder folder;
  const doubles::HandClock clock;
  ASSERT_TRUE(open(clock, folder)->time());
  EXPECT_EQ(std::filesystem::status(folder.file()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(SqliteFile, IsReportedAsCorruptAndReplacedAfterItMoved) {
  const doubles::HandClock clock;
  const std::string title("SQLite format 3\0", 16);
  for (const std::string& text : {std::string("no database at all"), title}) {
    const Folder folder;
    std::ofstream(folder.file()) << text + std::string(9000, 'y');
    const auto store = open(clock, folder);
    ASSERT_FALSE(store->time());
    EXPECT_EQ(store->last_error_kind(), telemetry::LedgerError::kCorrupt);
    std::filesystem::rename(folder.file(), folder.file() + ".damaged");
    EXPECT_TRUE(store->time());
  }
}

TEST(SqliteFile, LeasesARegionToOneHolder) {
  const Folder folder;
  doubles::HandClock clock;
  const auto one = open(clock, folder, 1);
  const auto two = open(clock, folder, 2);
  using ledgers::RegionLease;
  const auto holder = [](const Result<RegionLease>& lease) { return lease ? lease->holder : "?"; };
  EXPECT_EQ(holder(one->acquire_region("eu", "one", {})), "one");
  clock.advance(Millis(1000));
  const auto seen = two->acquire_region("eu", "two", {});
  EXPECT_EQ(holder(seen), "one");
  EXPECT_EQ(holder(two->acquire_region("us", "two", {})), "two");
  EXPECT_EQ(holder(one->acquire_region("eu", "one", {})), "one");
  // The holder has renewed its lease since.
  EXPECT_EQ(holder(two->acquire_region("eu", "two", *seen)), "one");
  const auto last = two->acquire_region("eu", "two", {});
  EXPECT_GT(last->until, seen->until);
  EXPECT_EQ(holder(two->acquire_region("eu", "two", *last)),
            "two");  // not renewed since
  EXPECT_EQ(holder(one->acquire_region("eu", "one", {})), "two");
  clock.advance(ledgers::kRegionLeaseTime);
  EXPECT_EQ(holder(one->acquire_region("eu", "one", {})), "one");  // expired
  two->release_region("eu", "two");
  EXPECT_EQ(holder(two->acquire_region("eu", "two", {})), "one");
  one->release_region("eu", "one");
  EXPECT_EQ(holder(two->acquire_region("eu", "two", {})), "two");
  const std::string name(64, 'r');
  EXPECT_EQ(holder(one->acquire_region(name, "one", {})), "one");
  EXPECT_EQ(holder(two->acquire_region(name, "two", {})), "one");
  EXPECT_EQ(holder(two->acquire_region(name.substr(1) + "s", "two", {})), "two");
}

}  // namespace
}  // namespace weir
