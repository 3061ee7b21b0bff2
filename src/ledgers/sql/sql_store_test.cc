// The ledger contract in an SQLite file, and the behaviour of a store on failures.

#include "ledgers/sql/sql_store.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ledgers/sql/make_ledger.h"
#include "ledgers/sql/schema.h"
#include "ledgers/sql/sqlite_fixture_test.h"
#include "ledgers/sql/sqlite_link.h"
#include "tests/contracts/feed_contract.h"
#include "tests/contracts/ledger_contract.h"

namespace weir {
namespace {

using ledgers::execute;
using ledgers::Folder;
using ledgers::LedgerStore;
using ledgers::open;

// A store as a GlobalLedger, without threads.
class DirectLedger final : public GlobalLedger {
 public:
  explicit DirectLedger(std::unique_ptr<LedgerStore> store) : store_(std::move(store)) {}
  void publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
               PublishReply reply) override {
    reply(store_->publish(region, known, rows));
  }
  void read_feeds(std::vector<RegionFeed> after, FeedReply reply) override {
    reply(store_->read_feeds(after));
  }
  void read_page(std::string region, LedgerPosition position, PageReply reply) override {
    reply(store_->read_page(region, position));
  }
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override {
    reply(store_->heartbeat(self, rules));
  }
  void clean(size_t most, CleaningReply reply) override { reply(store_->clean(most)); }

 private:
  std::unique_ptr<LedgerStore> store_;
};

struct SqliteMaker {
  using Clock = doubles::ManualClock;
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
INSTANTIATE_TYPED_TEST_SUITE_P(SqliteStore, FeedContract, SqliteMaker);
}  // namespace contracts

namespace {

using contracts::row_of;

TEST(SqliteStore, CreatesItsTablesOnce) {
  const doubles::ManualClock clock;
  const Folder folder;
  const auto store = open(clock, folder);
  EXPECT_TRUE(store->publish("east", {}, {row_of(1, clock.now().wall)}));
  EXPECT_EQ(store->migrate().value(), ledgers::kSchemaVersion);
  EXPECT_EQ(open(clock, folder)->migrate().value(), ledgers::kSchemaVersion);
  EXPECT_EQ(store->read_page("east", {})->rows.size(), 1u);
}

TEST(SqliteStore, RejectsTablesOfANewerVersion) {
  const doubles::ManualClock clock;
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
  const doubles::ManualClock clock;
  const Folder folder;
  const auto store = open(clock, folder);
  ASSERT_TRUE(store->publish("east", {}, {row_of(1, clock.now().wall)}));
  for (const char* corruption :
       {"kept_until_ms = kept_until_ms + 1", "kept_until_ms = kept_until_ms - 1, count = -1",
        "count = 1, leased_until_ms = -1", "leased_until_ms = 0, limit_seen = 0", "count = 'many'",
        "count = 1, sequence = 9223372036854775807", "sequence = -9223372036854775807"}) {
    execute(folder, std::string("UPDATE weir_cells SET ") + corruption);
    const auto page = store->read_page("east", {});
    ASSERT_TRUE(page);
    EXPECT_EQ(page->invalid, 1u) << corruption;
    EXPECT_TRUE(page->rows.empty()) << corruption;
  }
}

TEST(SqliteStore, ReplacesUnreadableRulesByItsOwn) {
  const doubles::ManualClock clock;
  const Folder folder;
  const auto store = open(clock, folder);
  ASSERT_TRUE(store->heartbeat({.region = "east"}, {.unpublished_permille = 100}));
  for (const char* bad : {"", "x", "-1", "12x", "1001", "99999999999999999999"}) {
    execute(folder, std::string("UPDATE weir_settings SET value = CAST('") + bad +
                        "' AS BLOB) WHERE name = CAST('unpublished_permille' AS BLOB)");
    EXPECT_EQ(store->heartbeat({.region = "west"}, {.unpublished_permille = 200})
                  ->rules.unpublished_permille,
              200u)
        << bad;
  }
  execute(folder, "UPDATE weir_settings SET value = 'x' WHERE name = CAST('policy' AS BLOB)");
  EXPECT_EQ(store->heartbeat({.region = "west"}, {.policy = PublishPolicy::kFloor})->rules.policy,
            PublishPolicy::kFloor);
}

TEST(SqliteStore, ReportsAMissingFolder) {
  const doubles::ManualClock clock;
  const auto store = ledgers::make_store(clock, {.path = "/nowhere/ledger.db"}, {.seed = 1});
  const auto time = store->time();
  ASSERT_FALSE(time);
  EXPECT_EQ(time.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(time.error().retry, Retry::kMayHelp);
  EXPECT_EQ(store->last_error_kind(), telemetry::LedgerError::kUnreachable);
}

TEST(SqliteStore, ReportsRowsThatATableRefuses) {
  const doubles::ManualClock clock;
  const Folder folder;
  ASSERT_TRUE(open(clock, folder)->migrate());
  const auto store = open(clock, folder);
  execute(folder,
          "CREATE TRIGGER no BEFORE INSERT ON weir_cells BEGIN SELECT RAISE(FAIL, 'no'); END");
  const auto refused = store->publish("east", {}, {row_of(1, clock.now().wall)});
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
      return ledgers::SqlFailure{.kind = kind, .detail = "injected", .unanswered = unanswered};
    }
    return inner_->run(statements, each, connection);
  }
  [[nodiscard]] uint64_t affected() const override { return inner_->affected(); }
  [[nodiscard]] uint64_t connections() const override { return inner_->connections(); }

  int times = 0;
  std::string prefix = "COMMIT";
  telemetry::LedgerError kind = telemetry::LedgerError::kDeadlock;
  bool unanswered = false;

 private:
  std::unique_ptr<SqlLink> inner_;
};

// A store on a failing link.
class SqlStore : public ::testing::Test {
 protected:
  SqlStore() { EXPECT_TRUE(store_.migrate()); }

  doubles::ManualClock clock_;
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
  const std::vector<LedgerRow> rows{row_of(1, clock_.now().wall)};
  link_.prefix = "BEGIN";
  link_.times = 7;
  EXPECT_TRUE(store_.publish("east", {}, rows));
  EXPECT_EQ(store_.retries(), 7u);
  EXPECT_EQ(pauses_.size(), 7u);
  link_.times = 100;
  const auto failed = store_.publish("east", {}, rows);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().retry, Retry::kMayHelp);
  EXPECT_EQ(store_.last_error_kind(), telemetry::LedgerError::kDeadlock);
  EXPECT_EQ(store_.retries(), 14u);
  // The failed transaction was rolled back, so the next one can begin.
  link_.times = 0;
  EXPECT_TRUE(store_.publish("east", {}, rows));
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
  // What the call wrote may be committed.
  link_.unanswered = true;
  EXPECT_EQ(error_of(LedgerError::kUnreachable).code, ErrorCode::kTimeout);
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
  // The file has more than counts.
  for (const char* lost : {"keys", "overrides", "audit log", "counts", "backup"}) {
    EXPECT_NE(fix_of(LedgerError::kCorrupt).find(lost), std::string::npos) << lost;
  }
  EXPECT_NE(fix_of(LedgerError::kFull).find("free space on its disk"), std::string::npos);
  EXPECT_NE(fix_of(LedgerError::kUnreachable).find("read-only"), std::string::npos);
  for (const auto kind : {LedgerError::kCorrupt, LedgerError::kFull, LedgerError::kReadOnly,
                          LedgerError::kRefused, LedgerError::kUnreachable}) {
    EXPECT_EQ(fix_of(kind).find("password"), std::string::npos);
  }
}

// The same request would time out again, and import would stop for good.
TEST_F(SqlStore, RequestsFewerBatchesAfterATimeout) {
  constexpr size_t kBatches = 300;
  FeedPosition at;
  for (size_t i = 0; i < kBatches; ++i) at = store_.publish("east", at, {}).value();
  const std::vector<RegionFeed> begin{{.region = "east", .at = {.epoch = at.epoch}}};
  const auto read = [&] {
    const auto changes = store_.read_feeds(begin);
    return changes ? std::pair(changes->batches.size(), changes->more)
                   : std::pair(size_t{0}, false);
  };
  EXPECT_EQ(read(), std::pair(kBatches, false));
  link_.prefix = "SELECT";
  link_.kind = telemetry::LedgerError::kTimeout;
  link_.times = 1;
  EXPECT_FALSE(store_.read_feeds(begin));
  EXPECT_EQ(read(), std::pair(ledgers::kMaxBatches / 2, true));
  // The limit grows again after a success, and never falls below one batch of each feed.
  EXPECT_EQ(read(), std::pair(kBatches, false));
  link_.times = 20;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(store_.read_feeds(begin));
  for (size_t most = 1; most <= 8; most *= 2) EXPECT_EQ(read(), std::pair(most, true));
}

TEST_F(SqlStore, RequestsFewerBatchesWhileTheyAreLarge) {
  std::vector<LedgerRow> rows(ledgers::kMaxFeedRows / 2, row_of(1, clock_.now().wall));
  FeedPosition at;
  for (int i = 0; i < 5; ++i) at = store_.publish("east", at, rows).value();
  FeedPosition reached{.epoch = at.epoch};
  std::vector<size_t> replies;
  for (bool more = true; more;) {
    const auto changes = store_.read_feeds({{.region = "east", .at = reached}});
    ASSERT_TRUE(changes);
    replies.push_back(changes->batches.size());
    more = changes->more;
    if (!changes->batches.empty()) reached = changes->batches.back().at;
  }
  EXPECT_EQ(replies, (std::vector<size_t>{2, 2, 1}));
  EXPECT_EQ(reached, at);
}

TEST(SqliteFile, IsPrivate) {
  const Folder folder;
  const doubles::ManualClock clock;
  ASSERT_TRUE(open(clock, folder)->time());
  EXPECT_EQ(std::filesystem::status(folder.file()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(SqliteFile, IsReportedAsCorruptAndReplacedAfterItMoved) {
  const doubles::ManualClock clock;
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
  doubles::ManualClock clock;
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
