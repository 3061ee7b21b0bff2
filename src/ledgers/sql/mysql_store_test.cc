// The ledger contract on a real mariadbd, and the behaviour that needs a real one.

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/split_mix.h"
#include "ledgers/sql/blocking_calls_test.h"
#include "ledgers/sql/mysql_fixture_test.h"
#include "ledgers/sql/mysql_link.h"
#include "ledgers/sql/schema.h"
#include "platform/thread_group.h"
#include "tests/contracts/ledger_contract.h"

namespace weir::ledgers {
namespace {

struct RealClock final : Clock {
  [[nodiscard]] Instant now() const override { return system_clock().now(); }
};

struct MySqlMaker {
  using Clock = RealClock;
  static constexpr bool kTimeIsReal = true;
  explicit MySqlMaker(const Clock&) {}
  [[nodiscard]] std::shared_ptr<GlobalLedger> make() const { return first.ledger; }
  [[nodiscard]] std::shared_ptr<GlobalLedger> make_another() const { return second.ledger; }
  void settle() const { platform::ThreadGroup::rest(Millis(1)); }
  void age(Millis by) const {
    for (const char* table : {"weir_cells", "weir_presence"}) {
      database.query(std::string("UPDATE ") + table + " SET updated_at = updated_at - " +
                     std::to_string(by.count()));
    }
  }
  // A long timeout: the contract does not limit the time of a read.
  [[nodiscard]] std::shared_ptr<ThreadedLedger> patient(uint64_t seed) const {
    return std::make_shared<ThreadedLedger>(
        system_clock(),
        ThreadedLedger::Stores{
            .publishing = store_at(database.address, {.seed = ~seed}),
            .importing =
                store_at(database.address, {.seed = seed, .answer_timeout = Millis(60'000)})});
  }
  Database database;
  RunningLedger first{patient(1)};
  RunningLedger second{patient(2)};
};

}  // namespace
}  // namespace weir::ledgers

namespace weir::contracts {
INSTANTIATE_TYPED_TEST_SUITE_P(MySql, LedgerContract, ledgers::MySqlMaker);
}

namespace weir::ledgers {
namespace {

TEST(MySqlStore, SuggestsAMigrationIfTablesAreMissing) {
  MariaDbServer& server = MariaDbServer::shared();
  const LedgerAddress address = address_of(server, server.new_database());
  const auto store = store_at(address);
  const auto refused = store->publish({.rows = {row_of(now(), 1)}, .presences = {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().retry, Retry::kMayHelp);
  EXPECT_EQ(refused.error().fix, "run: weir migrate --ledger " + to_string(address));
  EXPECT_EQ(store->last_error_kind(), LedgerError::kMissingTables);
  EXPECT_FALSE(store->read_page({}));
  EXPECT_FALSE(store->changes_since({.position = 1}));
  EXPECT_FALSE(store->heartbeat({.region = "east"}, {}));
  EXPECT_FALSE(store->clean(1));
  EXPECT_TRUE(store->time());
  ASSERT_TRUE(store->migrate());
  EXPECT_TRUE(store->publish({.rows = {row_of(now(), 1)}, .presences = {}}));
}

TEST(MySqlStore, MigratesConcurrently) {
  MariaDbServer& server = MariaDbServer::shared();
  const LedgerAddress address = address_of(server, server.new_database());
  platform::ThreadGroup threads;
  for (uint64_t i = 0; i < 4; ++i) {
    threads.start([&, i] {
      const auto version = store_at(address, {.seed = i})->migrate();
      EXPECT_TRUE(version) << version.error().detail;
    });
  }
  threads.join();
  EXPECT_TRUE(store_at(address)->publish({.rows = {row_of(now(), 1)}, .presences = {}}));
}

TEST(MySqlStore, WorksWithTablesCreatedByHand) {
  MariaDbServer& server = MariaDbServer::shared();
  const std::string database = server.new_database();
  const std::string text = schema_sql(Dialect::kMySql);
  for (size_t from = 0; from < text.size();) {
    const size_t end = text.find(";\n", from);
    server.query(text.substr(from, end - from), database);
    from = text.find_first_not_of('\n', end + 1);
  }
  const auto store = store_at(address_of(server, database));
  EXPECT_TRUE(store->publish({.rows = {row_of(now(), 1)}, .presences = {}}));
  EXPECT_EQ(store->migrate().value(), kSchemaVersion);
}

TEST(MySqlStore, CommitsAllOrNothing) {
  const Database database;
  const auto store = store_at(database.address);
  database.query("RENAME TABLE weir_presence TO away");
  const LedgerNews batch{
      .rows = {row_of(now(), 1)},
      .presences = {
          {.key = row_of(now(), 1).key, .region = "east", .until = now() + Millis(9999)}}};
  EXPECT_FALSE(store->publish(batch));
  EXPECT_EQ(database.query("SELECT COUNT(*) FROM weir_cells"), std::vector<std::string>{"0"});
  database.query("RENAME TABLE away TO weir_presence");
  EXPECT_TRUE(store->publish(batch));
}

TEST(MySqlStore, ReportsRowsThatTheColumnsRefuse) {
  const Database database;
  const auto store = store_at(database.address);
  database.query("ALTER TABLE weir_cells MODIFY identifier VARBINARY(5) NOT NULL");
  const auto refused =
      store->publish({.rows = {row_of(now(), 1), row_of(now(), 1, "longer")}, .presences = {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().retry, Retry::kPointless);
  EXPECT_EQ(store->last_error_kind(), LedgerError::kBadRows);
  EXPECT_TRUE(store->publish({.rows = {row_of(now(), 1)}, .presences = {}}));
}

TEST(MySqlStore, FindsRowsThatCommitLate) {
  const Database database;
  const auto store = store_at(database.address);
  ASSERT_TRUE(store->publish({.rows = {row_of(now(), 1)}, .presences = {}}));
  Session session(database.address);
  session.query("SET time_zone = '+00:00'");
  session.query("BEGIN");
  session.query(
      "UPDATE weir_cells SET count = 5, updated_at = CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)");
  const auto before = store->changes_since({.position = now().time_since_epoch().count()});
  ASSERT_TRUE(before);
  ASSERT_EQ(before->news.rows.size(), 1u);
  EXPECT_EQ(before->news.rows[0].count, 1u);
  session.query("COMMIT");
  const auto after = store->changes_since(before->next);
  ASSERT_TRUE(after);
  ASSERT_EQ(after->news.rows.size(), 1u);
  EXPECT_EQ(after->news.rows[0].count, 5u);
}

TEST(MySqlStore, WaitsOnceForALockedRowAndReportsTheRows) {
  const WallTime when = now();
  const Database database;
  const auto store = store_at(database.address);
  ASSERT_TRUE(store->publish({.rows = {row_of(when, 1)}, .presences = {}}));
  Session session(database.address);
  session.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  session.query("BEGIN");
  session.query("SELECT * FROM weir_cells WHERE identifier = 'alice' FOR UPDATE");
  const auto held =
      store->publish({.rows = {row_of(when, 2), row_of(when, 1, "bob")}, .presences = {}});
  ASSERT_FALSE(held);
  EXPECT_EQ(store->last_error_kind(), LedgerError::kLocked);
  EXPECT_EQ(held.error().field, "rows");
  EXPECT_EQ(held.error().retry, Retry::kMayHelp);
  EXPECT_EQ(store->retries(), 0u);
  // Other rows can be written meanwhile.
  EXPECT_TRUE(store->publish({.rows = {row_of(when, 1, "bob")}, .presences = {}}));
  EXPECT_FALSE(store->publish({.rows = {row_of(when, 2)}, .presences = {}}));
  session.query("ROLLBACK");
  EXPECT_TRUE(store->publish({.rows = {row_of(when, 2)}, .presences = {}}));
}

TEST(MySqlStore, DeletesAllRowsButALockedOne) {
  const Database database;
  const auto store = store_at(database.address);
  const WallTime old = now() - Millis(600'000);
  LedgerNews batch;
  for (int i = 0; i < 1200; ++i) {
    // 20 different expiry times, a minute apart.
    batch.rows.push_back(row_of(old - Millis(60'000 * (i % 20)), 1, "user-" + std::to_string(i)));
  }
  ASSERT_TRUE(store->publish(batch));
  Session session(database.address);
  session.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  session.query("BEGIN");
  session.query(
      "SELECT * FROM weir_cells WHERE identifier = 'user-19' FOR UPDATE");  // the first to expire
  const auto cleaned = store->clean(5000);
  ASSERT_TRUE(cleaned) << cleaned.error().detail;
  EXPECT_EQ(cleaned->deleted, 1199u);
  session.query("ROLLBACK");
  ASSERT_TRUE(store->clean(5000));
  EXPECT_EQ(database.query("SELECT COUNT(*) FROM weir_cells"), std::vector<std::string>{"0"});
}

TEST(MySqlStore, DryRunChecksTablesAndPermissionsWithoutATrace) {
  MariaDbServer& server = MariaDbServer::shared();
  const LedgerAddress empty = address_of(server, server.new_database());
  const auto store = store_at(empty);
  const auto missing = store->dry_run();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().fix, "run: weir migrate --ledger " + to_string(empty));
  ASSERT_TRUE(store->migrate());
  const auto checked = store->dry_run();
  EXPECT_TRUE(checked) << checked.error().detail;
  for (const char* table : {"weir_cells", "weir_presence", "weir_regions", "weir_leases"}) {
    EXPECT_EQ(server.query(std::string("SELECT COUNT(*) FROM ") + table, empty.database),
              std::vector<std::string>{"0"})
        << table;
  }
  for (const char* grants : {"SELECT", "SELECT, INSERT", "SELECT, INSERT, UPDATE"}) {
    server.query("CREATE OR REPLACE USER reader@'%' IDENTIFIED BY 'secret'");
    server.query(std::string("GRANT ") + grants + " ON " + empty.database + ".* TO reader@'%'");
    LedgerAddress address = empty;
    address.user = "reader";
    const auto denied = store_at(address)->dry_run();
    ASSERT_FALSE(denied) << grants;
    EXPECT_NE(denied.error().fix.find("grant the user SELECT, INSERT, UPDATE and DELETE"),
              std::string::npos)
        << denied.error().fix;
  }
}

TEST(MySqlStore, ReportsLockedAndExpiredAccountsAtEachCall) {
  const Database database;
  const std::string user = "locked_" + database.name;
  LedgerAddress address = database.address;
  address.user = user;
  const auto store = store_at(address);
  const std::string name = user + "@'%'";
  database.server.query("CREATE USER " + name + " IDENTIFIED BY 'secret' ACCOUNT LOCK");
  database.server.query("GRANT ALL ON " + database.name + ".* TO " + name);
  for (int i = 0; i < 3; ++i) {
    const auto locked = store->time();
    ASSERT_FALSE(locked);
    EXPECT_NE(locked.error().detail.find("4151"), std::string::npos) << locked.error().detail;
    EXPECT_NE(locked.error().fix.find("ACCOUNT UNLOCK"), std::string::npos) << locked.error().fix;
    EXPECT_EQ(store->last_error_kind(), LedgerError::kRefused);
  }
  database.server.query("ALTER USER " + name + " ACCOUNT UNLOCK PASSWORD EXPIRE");
  for (int i = 0; i < 3; ++i) {
    const auto expired = store->time();
    ASSERT_FALSE(expired);
    EXPECT_NE(expired.error().detail.find("18"), std::string::npos) << expired.error().detail;
    EXPECT_NE(expired.error().fix.find("expired"), std::string::npos) << expired.error().fix;
    EXPECT_EQ(store->last_error_kind(), LedgerError::kRefused);
  }
  database.server.query("ALTER USER " + name + " IDENTIFIED BY 'secret' PASSWORD EXPIRE NEVER");
  EXPECT_TRUE(store->time());
}

TEST(MySqlStore, PublishesTheSameKeysConcurrently) {
  const Database database;
  constexpr uint64_t kRounds = 50;
  constexpr size_t kKeys = 250;
  const WallTime start = now();
  std::atomic<uint64_t> retries{0};
  std::atomic<bool> done{false};
  platform::ThreadGroup writers;
  for (uint64_t writer = 0; writer < 4; ++writer) {
    writers.start([&, writer] {
      const auto store = store_at(database.address, {.seed = writer + 10});
      uint64_t random = writer;
      const std::string region = writer % 2 == 0 ? "east" : "west";
      for (uint64_t round = 1; round <= kRounds; ++round) {
        LedgerNews batch;
        for (size_t i = 0; i < kKeys; ++i) {
          const size_t key = base::split_mix(random) % kKeys;
          batch.rows.push_back(row_of(start, round, std::to_string(key), region));
          batch.presences.push_back({.key = batch.rows.back().key,
                                     .region = region,
                                     .until = start + Millis(60'000 + round)});
        }
        // Some have expired, and are deleted while others write them.
        for (size_t i = 0; i < kKeys / 10; ++i) batch.rows[i].sequence -= 3;
        if (round == kRounds) {
          for (size_t i = 0; i < kKeys; ++i) {
            batch.rows.push_back(row_of(start, round, std::to_string(i), region));
          }
        }
        const auto published = store->publish(batch);
        EXPECT_TRUE(published) << published.error().detail;
      }
      retries += store->retries();
    });
  }
  platform::ThreadGroup others;
  others.start([&] {
    const auto store = store_at(database.address, {.seed = 77});
    while (!done) {
      EXPECT_TRUE(store->changes_since({.position = now().time_since_epoch().count()}));
      EXPECT_TRUE(store->clean(1000));
      EXPECT_TRUE(store->heartbeat({.region = "east"}, {}));
    }
  });
  writers.join();
  done = true;
  others.join();
  const auto page = store_at(database.address)->read_page({});
  ASSERT_TRUE(page);
  ASSERT_EQ(page->news.rows.size(), 2 * kKeys);
  for (const LedgerRow& row : page->news.rows) EXPECT_EQ(row.count, kRounds);
  std::printf("deadlocks retried: %llu\n", static_cast<unsigned long long>(retries.load()));
}

TEST(MySqlStore, ConnectsThroughAUnixSocket) {
  const Database database;
  LedgerAddress address = database.address;
  address.host.clear();
  address.socket = database.server.socket();
  EXPECT_TRUE(store_at(address)->time());
}

TEST(MySqlStore, ReportsAWrongPasswordWithoutRepeatingIt) {
  const Database database;
  LedgerAddress address = database.address;
  address.password = "hunter2";
  const auto store = store_at(address);
  const auto time = store->time();
  ASSERT_FALSE(time);
  EXPECT_EQ(store->last_error_kind(), LedgerError::kRefused);
  EXPECT_EQ((time.error().detail + time.error().fix).find("hunter2"), std::string::npos);
  address = database.address;
  address.database = "weir_of_another";
  EXPECT_FALSE(store_at(address)->time());
}

TEST(MySqlStore, RejectsAServerWithoutRequiredTls) {
  const Database database;
  LedgerAddress address = database.address;
  address.tls = LedgerTls::kPreferred;
  EXPECT_TRUE(store_at(address)->time());
  for (const LedgerTls tls : {LedgerTls::kRequired, LedgerTls::kVerify}) {
    address.tls = tls;
    const auto store = store_at(address);
    EXPECT_FALSE(store->time());
    EXPECT_EQ(store->last_error_kind(), LedgerError::kRefused);
  }
}

TEST(MySqlStore, ConnectsWithTls) {
  const std::filesystem::path folder = MariaDbServer::shared().folder();
  const std::string key = folder / "key.pem";
  const std::string certificate = folder / "cert.pem";
  const std::string make =
      "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext "
      "subjectAltName=IP:127.0.0.1 -keyout " +
      key + " -out " + certificate + " >/dev/null 2>&1";
  ASSERT_EQ(std::system(make.c_str()), 0);
  MariaDbServer server({"--ssl-cert=" + certificate, "--ssl-key=" + key});
  LedgerAddress address = address_of(server, server.new_database());
  server.query("ALTER USER 'weir'@'%' REQUIRE SSL");
  EXPECT_FALSE(store_at(address)->time());
  for (const LedgerTls tls : {LedgerTls::kPreferred, LedgerTls::kRequired}) {
    address.tls = tls;
    const auto time = store_at(address)->time();
    EXPECT_TRUE(time) << time.error().detail;
  }
  address.tls = LedgerTls::kVerify;
  EXPECT_FALSE(store_at(address)->time());  // not signed by a trusted authority
  address.tls_ca = certificate;
  const auto time = store_at(address)->time();
  EXPECT_TRUE(time) << time.error().detail;
}

TEST(MySqlErrors, AreClassified) {
  const std::pair<LedgerError, std::vector<unsigned>> kinds[] = {
      {LedgerError::kDeadlock, {1213}},
      {LedgerError::kLocked, {1205}},
      {LedgerError::kReadOnly, {1290, 1792, 1836}},
      {LedgerError::kFull, {1021, 1114}},
      {LedgerError::kMissingTables, {1146}},
      {LedgerError::kRefused, {1044, 1045, 1049, 1130, 1142, 2026}},
      {LedgerError::kBadRows, {1406, 1264, 1366, 1292, 1048, 1153, 4025}},
      {LedgerError::kTimeout, {1969, 3024}},
      {LedgerError::kUnreachable, {1040, 1053, 2002, 2003, 2006, 2013}},
      {LedgerError::kOther, {1064, 1317}}};
  for (const auto& [kind, codes] : kinds) {
    for (const unsigned code : codes) EXPECT_EQ(classify_mysql_error(code), kind) << code;
  }
}

TEST(MySqlValues, AreEncodedWithoutInjection) {
  EXPECT_EQ(with_values({.sql = "SELECT ?,?,?",
                         .values = {int64_t{-7}, std::string_view("'?\\"), std::string_view()}}),
            "SELECT -7,x'273f5c',x''");
}

TEST(MySqlStore, LeasesARegionToOneHolder) {
  const Database database;
  const auto one = store_at(database.address, {.seed = 1});
  const auto two = store_at(database.address, {.seed = 2});
  for (const std::string& region : {std::string("eu"), std::string(64, 'r')}) {
    EXPECT_EQ(one->acquire_region(region, "one", {})->holder, "one");
    const auto seen = two->acquire_region(region, "two", {});
    EXPECT_EQ(seen->holder, "one");
    EXPECT_EQ(two->acquire_region(region, "two", *seen)->holder, "two");
    EXPECT_EQ(one->acquire_region(region, "one", {})->holder, "two");
    two->release_region(region, "two");
    EXPECT_EQ(one->acquire_region(region, "one", {})->holder, "one");
  }
}

}  // namespace
}  // namespace weir::ledgers
