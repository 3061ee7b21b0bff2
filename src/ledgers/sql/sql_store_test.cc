// The ledger's contract in a file of SQLite, and what only a file can do.

#include "ledgers/sql/sql_store.h"

#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
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

// A file with a folder of its own.
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

// Says something to the file from aside.
void say(const Folder& folder, const std::string& sql) {
  sqlite3* file = nullptr;
  ASSERT_EQ(sqlite3_open(folder.file().c_str(), &file), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(file, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(file);
  sqlite3_close(file);
}

// A store as a port, without threads.
class Direct final : public GlobalLedger {
 public:
  explicit Direct(std::unique_ptr<LedgerStore> store) : store_(std::move(store)) {}
  void publish(LedgerNews news, PublishReply reply) override { reply(store_->publish(news)); }
  void changes_since(LedgerCursor cursor, ChangesReply reply) override {
    reply(store_->changes_since(cursor));
  }
  void read_page(LedgerPosition place, PageReply reply) override {
    reply(store_->read_page(place));
  }
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override {
    reply(store_->heartbeat(self, rules));
  }
  void clean(size_t most, CleaningReply reply) override { reply(store_->clean(most)); }

 private:
  std::unique_ptr<LedgerStore> store_;
};

struct InAFile {
  using Clock = doubles::HandClock;
  static constexpr bool kTimeIsReal = false;
  explicit InAFile(Clock& at) : clock(at) {}
  [[nodiscard]] std::shared_ptr<GlobalLedger> make() const {
    return std::make_shared<Direct>(open(clock, folder, 1));
  }
  [[nodiscard]] std::shared_ptr<GlobalLedger> make_another() const {
    return std::make_shared<Direct>(open(clock, folder, 2));
  }
  void settle() const {}
  void pass(Millis by) { clock.advance(by); }
  Clock& clock;
  Folder folder;
};

}  // namespace

namespace contracts {
INSTANTIATE_TYPED_TEST_SUITE_P(SqliteStore, LedgerContract, InAFile);
}

namespace {

using contracts::row_of;

TEST(SqliteStore, MigratesItselfAndTwiceIsOnce) {
  const doubles::HandClock clock;
  const Folder folder;
  const auto store = open(clock, folder);
  EXPECT_TRUE(store->publish({.rows = {row_of(1, clock.now().wall)}, .presences = {}}));
  EXPECT_EQ(store->migrate().value(), ledgers::kSchemaVersion);
  EXPECT_EQ(open(clock, folder)->migrate().value(), ledgers::kSchemaVersion);
  EXPECT_EQ(store->read_page({})->news.rows.size(), 1u);
}

TEST(SqliteStore, LeavesTablesOfANewerProgramAlone) {
  const doubles::HandClock clock;
  const Folder folder;
  ASSERT_TRUE(open(clock, folder)->migrate());
  say(folder, "UPDATE weir_settings SET value = '99' WHERE name = CAST('schema_version' AS BLOB)");
  const auto version = open(clock, folder)->migrate();
  ASSERT_FALSE(version);
  EXPECT_NE(version.error().detail.find("version 99"), std::string::npos) << version.error().detail;
  EXPECT_FALSE(open(clock, folder)->time());
}

TEST(SqliteStore, LeavesOutARowWhoseEndIsNotItsOwn) {
  const doubles::HandClock clock;
  const Folder folder;
  const auto store = open(clock, folder);
  ASSERT_TRUE(store->publish({.rows = {row_of(1, clock.now().wall)}, .presences = {}}));
  for (const char* harm :
       {"expires_at_ms = expires_at_ms + 1", "expires_at_ms = expires_at_ms - 1, count = -1",
        "count = 'many'", "count = 1, sequence = 9223372036854775807",
        "sequence = -9223372036854775807"}) {
    say(folder, std::string("UPDATE weir_cells SET ") + harm);
    const auto page = store->read_page({});
    ASSERT_TRUE(page);
    EXPECT_EQ(page->invalid, 1u) << harm;
    EXPECT_TRUE(page->news.rows.empty()) << harm;
  }
}

TEST(SqliteStore, TakesItsOwnRulesForThoseThatCannotBeRead) {
  const doubles::HandClock clock;
  const Folder folder;
  const auto store = open(clock, folder);
  ASSERT_TRUE(store->heartbeat({.region = "east"}, {.hidden_permille = 100}));
  for (const char* bad : {"", "x", "-1", "12x", "1001", "99999999999999999999"}) {
    say(folder, std::string("UPDATE weir_settings SET value = CAST('") + bad +
                    "' AS BLOB) WHERE name = CAST('hidden_permille' AS BLOB)");
    EXPECT_EQ(store->heartbeat({.region = "west"}, {.hidden_permille = 200})->rules.hidden_permille,
              200u)
        << bad;
  }
  say(folder, "UPDATE weir_settings SET value = 'x' WHERE name = CAST('policy' AS BLOB)");
  EXPECT_EQ(store->heartbeat({.region = "west"}, {.policy = PublishPolicy::kFloor})->rules.policy,
            PublishPolicy::kFloor);
}

TEST(SqliteStore, SaysThatAFileIsNone) {
  const doubles::HandClock clock;
  const auto store = ledgers::make_store(clock, {.path = "/nowhere/ledger.db"}, {.seed = 1});
  const auto time = store->time();
  ASSERT_FALSE(time);
  EXPECT_EQ(time.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(time.error().retry, Retry::kMayHelp);
  EXPECT_EQ(store->why(), telemetry::LedgerError::kUnreachable);
}

TEST(SqliteStore, BlamesTheRowsThatTheTablesRefuse) {
  const doubles::HandClock clock;
  const Folder folder;
  ASSERT_TRUE(open(clock, folder)->migrate());
  const auto store = open(clock, folder);
  say(folder, "CREATE TRIGGER no BEFORE INSERT ON weir_cells BEGIN SELECT RAISE(FAIL, 'no'); END");
  const auto refused = store->publish({.rows = {row_of(1, clock.now().wall)}, .presences = {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().retry, Retry::kPointless);
  EXPECT_EQ(store->why(), telemetry::LedgerError::kBadRows);
}

// A link that fails as told before it passes calls on.
class Failing final : public ledgers::SqlLink {
 public:
  explicit Failing(std::unique_ptr<SqlLink> inner) : inner_(std::move(inner)) {}
  std::optional<ledgers::SqlFailure> run(std::span<const ledgers::SqlStatement> statements,
                                         const EachRow& each, Connection connection) override {
    if (statements[0].sql.starts_with(when) && times > 0) {
      --times;
      return ledgers::SqlFailure{.why = why, .detail = "as told"};
    }
    return inner_->run(statements, each, connection);
  }
  [[nodiscard]] uint64_t affected() const override { return inner_->affected(); }
  [[nodiscard]] bool ends_long_statements() const override { return true; }
  [[nodiscard]] uint64_t connections() const override { return inner_->connections(); }

  int times = 0;
  std::string when = "COMMIT";
  telemetry::LedgerError why = telemetry::LedgerError::kDeadlock;

 private:
  std::unique_ptr<SqlLink> inner_;
};

// A store behind such a link.
class SqlStore : public ::testing::Test {
 protected:
  SqlStore() { EXPECT_TRUE(store_.migrate()); }

  doubles::HandClock clock_;
  const Folder folder_;
  std::vector<Millis> pauses_;
  std::unique_ptr<Failing> made_ =
      std::make_unique<Failing>(ledgers::make_sqlite_link(clock_, folder_.file()));
  Failing& link_ = *made_;
  ledgers::SqlStore store_{clock_,
                           ledgers::Dialect::kSqlite,
                           std::move(made_),
                           "sqlite:x",
                           {.seed = 1, .pause = [this](Millis span) { pauses_.push_back(span); }}};
};

TEST_F(SqlStore, DoesAgainWhatADeadlockUndid) {
  const LedgerNews news{
      .rows = {row_of(1, clock_.now().wall)},
      .presences = {{.key = row_of(1, {}).key, .region = "east", .until = clock_.now().wall}}};
  link_.times = 7;
  EXPECT_TRUE(store_.publish(news));
  EXPECT_EQ(store_.retries(), 7u);
  EXPECT_EQ(pauses_.size(), 7u);
  link_.times = 100;
  const auto failed = store_.publish(news);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().retry, Retry::kMayHelp);
  EXPECT_EQ(store_.why(), telemetry::LedgerError::kDeadlock);
  EXPECT_EQ(store_.retries(), 14u);
  // And everything was undone, so that the next is not inside of it.
  link_.times = 0;
  EXPECT_TRUE(store_.publish(news));
}

TEST_F(SqlStore, TellsWhatFailuresMeanToTheCaller) {
  link_.when = "SELECT";
  using telemetry::LedgerError;
  const auto error_of = [&](LedgerError why) {
    link_.why = why;
    link_.times = 1;
    return store_.time().error();
  };
  for (const auto why : {LedgerError::kUnreachable, LedgerError::kReadOnly, LedgerError::kFull,
                         LedgerError::kMissingTables, LedgerError::kRefused, LedgerError::kOther}) {
    EXPECT_EQ(error_of(why).code, ErrorCode::kUnavailable);
    EXPECT_EQ(error_of(why).retry, Retry::kMayHelp);
  }
  EXPECT_EQ(error_of(LedgerError::kTimeout).code, ErrorCode::kTimeout);
  EXPECT_EQ(error_of(LedgerError::kBadRows).retry, Retry::kPointless);
  EXPECT_EQ(error_of(LedgerError::kMissingTables).fix, "run: weir migrate --ledger sqlite:x");
}

TEST_F(SqlStore, KnowsWhatToDoAboutAFile) {
  link_.when = "SELECT";
  using telemetry::LedgerError;
  const auto fix_of = [&](LedgerError why) {
    link_.why = why;
    link_.times = 1;
    return store_.time().error().fix;
  };
  EXPECT_NE(fix_of(LedgerError::kCorrupt).find("move the file away"), std::string::npos);
  EXPECT_NE(fix_of(LedgerError::kFull).find("free space on its disk"), std::string::npos);
  EXPECT_NE(fix_of(LedgerError::kUnreachable).find("read-only"), std::string::npos);
  for (const auto why : {LedgerError::kCorrupt, LedgerError::kFull, LedgerError::kReadOnly,
                         LedgerError::kRefused, LedgerError::kUnreachable}) {
    EXPECT_EQ(fix_of(why).find("password"), std::string::npos);
  }
}

// A server that cannot read so much in its time could not the next time either, when there is
// more: nothing would be heard any more.
TEST_F(SqlStore, AsksForLessAtOnceAfterTheStoreHadNoTime) {
  const LedgerCursor begin = store_.changes_since({})->next;
  constexpr size_t kHalf = ledgers::kMostChanges / 2;
  constexpr size_t kRows = kHalf + 4000;
  for (size_t at = 0; at < kRows; at += 1000) {
    LedgerNews news;
    for (size_t i = at; i < at + 1000; ++i) {
      news.rows.push_back(row_of(1, clock_.now().wall));
      news.rows.back().key.identifier = std::to_string(i);
    }
    ASSERT_TRUE(store_.publish(news));
    clock_.advance(Millis(1));
  }
  link_.when = "SELECT";
  link_.why = telemetry::LedgerError::kTimeout;
  link_.times = 1;
  EXPECT_FALSE(store_.changes_since(begin));

  const auto first = store_.changes_since(begin);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->news.rows.size(), kHalf);
  ASSERT_TRUE(first->rest);
  const auto rest = store_.changes_since(*first->rest);
  ASSERT_TRUE(rest);
  EXPECT_FALSE(rest->rest);
  std::set<std::string> acked;
  for (const auto& part : {*first, *rest}) {
    for (const LedgerRow& row : part.news.rows) acked.insert(row.key.identifier);
  }
  EXPECT_EQ(acked.size(), kRows);

  // It may be quick again, and has to give something however slow it is.
  EXPECT_FALSE(store_.changes_since(begin)->rest);
  for (int i = 0; i < 10; ++i) {
    link_.times = 1;
    EXPECT_FALSE(store_.changes_since(begin));
  }
  EXPECT_EQ(store_.changes_since(begin)->news.rows.size(), ledgers::kRowsPerPage);
}

// Stores are full of them: another hash would be another tuple.
TEST(KeyHasher, GivesTheSameKeyForEver) {
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

// A schema as a person would describe it: columns in their order with their type, in words that
// both dialects know, and keys.
struct Described {
  std::map<std::string, std::vector<std::string>> tables;  // by name; the primary key last
  std::set<std::string> indexes;
  std::string version;
  friend bool operator==(const Described&, const Described&) = default;
};

Described describe(ledgers::Dialect dialect) {
  // The longer ones first.
  const std::pair<std::regex, std::string> words[] = {
      {std::regex("BIGINT UNSIGNED|BIGINT|INTEGER"), "number"},
      {std::regex("VARBINARY\\([0-9]+\\)|BINARY\\(32\\)|BLOB"), "bytes"}};
  Described described;
  for (std::string statement : ledgers::schema_statements(dialect)) {
    for (const auto& [word, common] : words)
      statement = std::regex_replace(statement, word, common);
    std::smatch found;
    if (std::regex_search(statement, found,
                          std::regex("^CREATE TABLE IF NOT EXISTS (\\w+) \\(\n([^]*)\n\\)"))) {
      const std::string name = found[1];
      std::istringstream lines(found[2]);
      for (std::string line; std::getline(lines, line);) {
        if (line.ends_with(',')) line.pop_back();
        std::smatch key;
        if (std::regex_match(line, key, std::regex("  KEY (\\w+) \\((\\w+)\\)"))) {
          described.indexes.insert(std::string(key[1]) + " on " + name + " of " +
                                   std::string(key[2]));
        } else {
          described.tables[name].push_back(line);
        }
      }
    } else if (std::regex_match(
                   statement, found,
                   std::regex("CREATE INDEX IF NOT EXISTS (\\w+) ON (\\w+) \\((\\w+)\\)"))) {
      described.indexes.insert(std::string(found[1]) + " on " + std::string(found[2]) + " of " +
                               std::string(found[3]));
    } else if (std::regex_search(statement, found, std::regex("INTO weir_settings.*'([0-9]+)'"))) {
      described.version = found[1];
    } else {
      ADD_FAILURE() << "a statement that this test does not know: " << statement;
    }
  }
  return described;
}

TEST(Schema, IsTheSameInBothDialectsButForWords) {
  const Described sqlite = describe(ledgers::Dialect::kSqlite);
  const Described mysql = describe(ledgers::Dialect::kMySql);
  EXPECT_EQ(sqlite.tables, mysql.tables);
  EXPECT_EQ(sqlite.indexes, mysql.indexes);
  EXPECT_EQ(sqlite.version, mysql.version);
  // And the description has something in it.
  EXPECT_EQ(sqlite.version, std::to_string(ledgers::kSchemaVersion));
  EXPECT_EQ(sqlite.tables.size(), 5U);
  EXPECT_EQ(sqlite.tables.at("weir_leases"),
            (std::vector<std::string>{"  name bytes NOT NULL", "  holder bytes NOT NULL",
                                      "  until_ms number NOT NULL", "  PRIMARY KEY (name)"}));
  EXPECT_EQ(sqlite.indexes,
            (std::set<std::string>{"weir_cells_expires_at_ms on weir_cells of expires_at_ms",
                                   "weir_cells_updated_at on weir_cells of updated_at",
                                   "weir_presence_until_ms on weir_presence of until_ms",
                                   "weir_presence_updated_at on weir_presence of updated_at"}));
  for (const auto dialect : {ledgers::Dialect::kSqlite, ledgers::Dialect::kMySql}) {
    EXPECT_EQ(ledgers::schema_sql(dialect).find('?'), std::string::npos);
  }
}

TEST(SqliteFile, IsForItsOwnerOnly) {
  const Folder folder;
  const doubles::HandClock clock;
  ASSERT_TRUE(open(clock, folder)->time());
  EXPECT_EQ(std::filesystem::status(folder.file()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(SqliteFile, ThatIsDamagedIsCalledSoAndReplacedOnceItIsMoved) {
  const doubles::HandClock clock;
  const std::string title("SQLite format 3\0", 16);
  for (const std::string& text : {std::string("no database at all"), title}) {
    const Folder folder;
    std::ofstream(folder.file()) << text + std::string(9000, 'y');
    const auto store = open(clock, folder);
    ASSERT_FALSE(store->time());
    EXPECT_EQ(store->why(), telemetry::LedgerError::kCorrupt);
    std::filesystem::rename(folder.file(), folder.file() + ".damaged");
    EXPECT_TRUE(store->time());
  }
}

TEST(SqliteFile, HasARegionHeldByOneWhoGoesOnHoldingIt) {
  const Folder folder;
  doubles::HandClock clock;
  const auto one = open(clock, folder, 1);
  const auto two = open(clock, folder, 2);
  using ledgers::RegionHold;
  const auto holder = [](const Result<RegionHold>& hold) { return hold ? hold->holder : "?"; };
  EXPECT_EQ(holder(one->hold_region("eu", "one", {})), "one");
  clock.advance(Millis(1000));
  const auto seen = two->hold_region("eu", "two", {});
  EXPECT_EQ(holder(seen), "one");
  EXPECT_EQ(holder(two->hold_region("us", "two", {})), "two");
  EXPECT_EQ(holder(one->hold_region("eu", "one", {})), "one");
  // It was held again since.
  EXPECT_EQ(holder(two->hold_region("eu", "two", *seen)), "one");
  const auto last = two->hold_region("eu", "two", {});
  EXPECT_GT(last->until, seen->until);
  EXPECT_EQ(holder(two->hold_region("eu", "two", *last)), "two");  // whoever saw it die may take it
  EXPECT_EQ(holder(one->hold_region("eu", "one", {})), "two");
  clock.advance(ledgers::kRegionHeld);
  EXPECT_EQ(holder(one->hold_region("eu", "one", {})), "one");  // it was over
  two->release_region("eu", "two");
  EXPECT_EQ(holder(two->hold_region("eu", "two", {})), "one");
  one->release_region("eu", "one");
  EXPECT_EQ(holder(two->hold_region("eu", "two", {})), "two");
  const std::string name(64, 'r');
  EXPECT_EQ(holder(one->hold_region(name, "one", {})), "one");
  EXPECT_EQ(holder(two->hold_region(name, "two", {})), "one");
  EXPECT_EQ(holder(two->hold_region(name.substr(1) + "s", "two", {})), "two");
}

}  // namespace
}  // namespace weir
