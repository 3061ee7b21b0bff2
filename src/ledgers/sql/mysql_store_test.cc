// The ledger contract on a real mariadbd, and the behaviour that needs a real one.

#include <cstdlib>
#include <filesystem>

#include "ledgers/sql/blocking_calls_test.h"
#include "ledgers/sql/mysql_fixture_test.h"
#include "ledgers/sql/mysql_link.h"
#include "ledgers/sql/schema.h"
#include "platform/thread_group.h"
#include "tests/contracts/feed_contract.h"
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
  void settle() const { platform::ThreadGroup::sleep(Millis(1)); }
  void age(Millis by) const {
    database.query("UPDATE weir_feed SET written_at_ms = written_at_ms - " +
                   std::to_string(by.count()));
  }
  [[nodiscard]] std::shared_ptr<ThreadedLedger> patient(uint64_t seed) const {
    return std::make_shared<ThreadedLedger>(
        system_clock(), ThreadedLedger::Stores{.publishing = store_at(database.address, ~seed),
                                               .importing = store_at(database.address, seed)});
  }
  Database database;
  RunningLedger first{patient(1)};
  RunningLedger second{patient(2)};
};

}  // namespace
}  // namespace weir::ledgers

namespace weir::contracts {
INSTANTIATE_TYPED_TEST_SUITE_P(MySql, LedgerContract, ledgers::MySqlMaker);
INSTANTIATE_TYPED_TEST_SUITE_P(MySql, FeedContract, ledgers::MySqlMaker);
}  // namespace weir::contracts

namespace weir::ledgers {
namespace {

TEST(MySqlStore, SuggestsAMigrationIfTablesAreMissing) {
  MariaDbServer& server = MariaDbServer::shared();
  const LedgerAddress address = address_of(server, server.new_database());
  const auto store = store_at(address);
  const auto refused = store->publish("east", {}, {row_of(now(), 1)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().retry, Retry::kMayHelp);
  EXPECT_EQ(refused.error().fix, "run: weir migrate --ledger " + to_string(address));
  EXPECT_EQ(store->last_error_kind(), LedgerError::kMissingTables);
  EXPECT_FALSE(store->read_page("east", {}));
  EXPECT_FALSE(store->read_feeds({}));
  EXPECT_FALSE(store->heartbeat({.region = "east"}, {}));
  EXPECT_FALSE(store->clean(1));
  EXPECT_TRUE(store->time());
  ASSERT_TRUE(store->migrate());
  EXPECT_TRUE(store->publish("east", {}, {row_of(now(), 1)}));
}

TEST(MySqlStore, MigratesConcurrently) {
  MariaDbServer& server = MariaDbServer::shared();
  const LedgerAddress address = address_of(server, server.new_database());
  platform::ThreadGroup threads;
  for (uint64_t i = 0; i < 4; ++i) {
    threads.start([&, i] {
      const auto version = store_at(address, i)->migrate();
      EXPECT_TRUE(version) << version.error().detail;
    });
  }
  threads.join();
  EXPECT_TRUE(store_at(address)->publish("east", {}, {row_of(now(), 1)}));
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
  EXPECT_TRUE(store->publish("east", {}, {row_of(now(), 1)}));
  EXPECT_EQ(store->migrate().value(), kSchemaVersion);
}

TEST(MySqlStore, CommitsAllOrNothing) {
  const Database database;
  const auto store = store_at(database.address);
  database.query("RENAME TABLE weir_feed TO away");
  EXPECT_FALSE(store->publish("east", {}, {row_of(now(), 1)}));
  for (const char* const table : {"weir_cells", "weir_regions"}) {
    EXPECT_EQ(database.query(std::string("SELECT COUNT(*) FROM ") + table),
              std::vector<std::string>{"0"});
  }
  database.query("RENAME TABLE away TO weir_feed");
  EXPECT_TRUE(store->publish("east", {}, {row_of(now(), 1)}));
}

TEST(MySqlStore, ReportsRowsThatTheColumnsRefuse) {
  const Database database;
  const auto store = store_at(database.address);
  database.query("ALTER TABLE weir_cells MODIFY identifier VARBINARY(5) NOT NULL");
  const auto refused = store->publish("east", {}, {row_of(now(), 1), row_of(now(), 1, "longer")});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().retry, Retry::kPointless);
  EXPECT_EQ(store->last_error_kind(), LedgerError::kBadRows);
  EXPECT_TRUE(store->publish("east", {}, {row_of(now(), 1)}));
}

TEST(MySqlStore, WaitsOnceForALockedRowAndReportsTheRows) {
  const WallTime when = now();
  const Database database;
  const auto store = store_at(database.address);
  ASSERT_TRUE(store->publish("east", {}, {row_of(when, 1)}));
  Session session(database.address);
  session.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  session.query("BEGIN");
  session.query("SELECT * FROM weir_cells WHERE identifier = 'alice' FOR UPDATE");
  const auto held = store->publish("east", {}, {row_of(when, 2), row_of(when, 1, "bob")});
  ASSERT_FALSE(held);
  EXPECT_EQ(store->last_error_kind(), LedgerError::kLocked);
  EXPECT_EQ(held.error().field, "rows");
  EXPECT_EQ(held.error().retry, Retry::kMayHelp);
  EXPECT_EQ(store->retries(), 0u);
  // Other rows can be written meanwhile.
  EXPECT_TRUE(store->publish("east", {}, {row_of(when, 1, "bob")}));
  EXPECT_FALSE(store->publish("east", {}, {row_of(when, 2)}));
  session.query("ROLLBACK");
  EXPECT_TRUE(store->publish("east", {}, {row_of(when, 2)}));
}

// Sending fewer rows would not help.
TEST(MySqlStore, DoesNotBlameTheRowsForALockOnTheRegion) {
  const WallTime when = now();
  const Database database;
  const auto store = store_at(database.address);
  const auto at = store->publish("east", {}, {row_of(when, 1)});
  ASSERT_TRUE(at);
  Session session(database.address);
  session.query("BEGIN");
  session.query("SELECT * FROM weir_regions WHERE region = 'east' FOR UPDATE");
  const auto held = store->publish("east", *at, {row_of(when, 2)});
  ASSERT_FALSE(held);
  EXPECT_EQ(store->last_error_kind(), LedgerError::kLocked);
  EXPECT_EQ(held.error().field, "");
  EXPECT_EQ(held.error().retry, Retry::kMayHelp);
  EXPECT_TRUE(store->publish("west", {}, {row_of(when, 2, "alice", "west")}));
  EXPECT_EQ(store->read_page("east", {})->rows.at(0).count, 1u);
  session.query("ROLLBACK");
  EXPECT_EQ(store->publish("east", *at, {row_of(when, 2)})->number, at->number + 1);
}

TEST(MySqlStore, DeletesAllRowsButALockedOne) {
  const Database database;
  const auto store = store_at(database.address);
  const WallTime old = now() - Millis(600'000);
  std::vector<LedgerRow> rows;
  for (int i = 0; i < 1200; ++i) {
    // 20 different expiry times, a minute apart.
    rows.push_back(row_of(old - Millis(60'000 * (i % 20)), 1, "user-" + std::to_string(i)));
  }
  ASSERT_TRUE(store->publish("east", {}, rows));
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
  for (const char* table : {"weir_cells", "weir_feed", "weir_regions", "weir_leases"}) {
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
  const auto one = store_at(database.address, 1);
  const auto two = store_at(database.address, 2);
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
