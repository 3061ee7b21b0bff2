// The ledger's contract against a real mariadbd, and what only a real one can do.

#include <mysql.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>

#include "base/split_mix.h"
#include "ledgers/sql/make_ledger.h"
#include "ledgers/sql/mysql_link.h"
#include "ledgers/sql/schema.h"
#include "ledgers/sql/threaded_ledger.h"
#include "ledgers/sql/waited_test.h"
#include "platform/thread_group.h"
#include "tests/contracts/ledger_contract.h"
#include "tests/servers/await.h"
#include "tests/servers/mariadb_server.h"

namespace weir {
namespace {

using ledgers::LedgerAddress;
using ledgers::LedgerKind;
using ledgers::LedgerStore;
using ledgers::LedgerTls;
using ledgers::row_of;
using ledgers::ThreadedLedger;
using servers::await;
using servers::MariaDbServer;
using telemetry::LedgerError;

LedgerAddress address_of(const MariaDbServer& server, std::string database) {
  return {.kind = LedgerKind::kMySql,
          .host = "127.0.0.1",
          .port = server.port(),
          .user = "weir",
          .password = "secret",
          .database = std::move(database),
          .tls = LedgerTls::kOff};
}

std::unique_ptr<LedgerStore> store_at(const LedgerAddress& address,
                                      const ledgers::StoreOptions& options = {.seed = 1}) {
  return ledgers::make_store(system_clock(), address, options);
}

WallTime now() {
  return system_clock().now().wall;
}

// A database of its own on the shared server, with its tables.
struct Database {
  Database() { EXPECT_TRUE(store_at(address)->migrate()); }
  MariaDbServer& server = MariaDbServer::shared();
  const std::string name = server.new_database();
  const LedgerAddress address = address_of(server, name);

  std::vector<std::string> say(const std::string& sql) const { return server.say(sql, name); }
};

// A ledger with its threads.
struct Running {
  explicit Running(const LedgerAddress& address)
      : Running(ledgers::make_ledger(system_clock(), address, 1)) {}
  explicit Running(std::shared_ptr<ThreadedLedger> made) : ledger(std::move(made)) {
    ledger->start();
  }
  ~Running() { ledger->stop(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ThreadedLedger* operator->() const { return ledger.get(); }
  ThreadedLedger& operator*() const { return *ledger; }
  const std::shared_ptr<ThreadedLedger> ledger;
};

struct RealClock final : Clock {
  [[nodiscard]] Instant now() const override { return system_clock().now(); }
};

struct InAServer {
  using Clock = RealClock;
  static constexpr bool kTimeIsReal = true;
  explicit InAServer(const Clock&) {}
  [[nodiscard]] std::shared_ptr<GlobalLedger> make() const { return first.ledger; }
  [[nodiscard]] std::shared_ptr<GlobalLedger> make_another() const { return second.ledger; }
  void settle() const { platform::ThreadGroup::rest(Millis(1)); }
  void pass(Millis by) const {
    for (const char* table : {"weir_cells", "weir_presence"}) {
      database.say(std::string("UPDATE ") + table + " SET updated_at = updated_at - " +
                   std::to_string(by.count()));
    }
  }
  // Patient with a server that is slow to read: how long it takes is not of the contract.
  [[nodiscard]] std::shared_ptr<ThreadedLedger> patient(uint64_t seed) const {
    return std::make_shared<ThreadedLedger>(
        system_clock(), ThreadedLedger::Stores{
                            .telling = store_at(database.address, {.seed = ~seed}),
                            .hearing = store_at(database.address,
                                                {.seed = seed, .answer_timeout = Millis(60'000)})});
  }
  Database database;
  Running first{patient(1)};
  Running second{patient(2)};
};

}  // namespace

namespace contracts {
INSTANTIATE_TYPED_TEST_SUITE_P(MySql, LedgerContract, InAServer);
}

namespace {

// A connection by which a test holds locks and transactions open.
class Session {
 public:
  explicit Session(const LedgerAddress& address) {
    if (mysql_real_connect(server_, address.host.c_str(), address.user.c_str(),
                           address.password.c_str(), address.database.c_str(), address.port,
                           nullptr, 0) == nullptr) {
      ADD_FAILURE() << mysql_error(server_);
    }
  }
  ~Session() { mysql_close(server_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  void say(const std::string& sql) {
    EXPECT_EQ(mysql_real_query(server_, sql.data(), sql.size()), 0) << mysql_error(server_);
    mysql_free_result(mysql_store_result(server_));
  }

 private:
  MYSQL* const server_ = mysql_init(nullptr);
};

TEST(MySqlStore, SaysWhatToDoAboutMissingTables) {
  MariaDbServer& server = MariaDbServer::shared();
  const LedgerAddress address = address_of(server, server.new_database());
  const auto store = store_at(address);
  const auto refused = store->publish({.rows = {row_of(now(), 1)}, .presences = {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().retry, Retry::kMayHelp);
  EXPECT_EQ(refused.error().fix, "run: weir migrate --ledger " + ledgers::to_string(address));
  EXPECT_EQ(store->why(), LedgerError::kMissingTables);
  EXPECT_FALSE(store->read_page({}));
  EXPECT_FALSE(store->changes_since({.position = 1}));
  EXPECT_FALSE(store->heartbeat({.region = "east"}, {}));
  EXPECT_FALSE(store->clean(1));
  EXPECT_TRUE(store->time());
  ASSERT_TRUE(store->migrate());
  EXPECT_TRUE(store->publish({.rows = {row_of(now(), 1)}, .presences = {}}));
}

TEST(MySqlStore, IsMigratedByManyAtOnce) {
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

TEST(MySqlStore, TakesTheTextThatPeopleMayRunThemselves) {
  MariaDbServer& server = MariaDbServer::shared();
  const std::string database = server.new_database();
  const std::string text = ledgers::schema_sql(ledgers::Dialect::kMySql);
  for (size_t from = 0; from < text.size();) {
    const size_t end = text.find(";\n", from);
    server.say(text.substr(from, end - from), database);
    from = text.find_first_not_of('\n', end + 1);
  }
  const auto store = store_at(address_of(server, database));
  EXPECT_TRUE(store->publish({.rows = {row_of(now(), 1)}, .presences = {}}));
  EXPECT_EQ(store->migrate().value(), ledgers::kSchemaVersion);
}

TEST(MySqlStore, CommitsAllOrNothing) {
  const Database database;
  const auto store = store_at(database.address);
  database.say("RENAME TABLE weir_presence TO away");
  const LedgerNews news{
      .rows = {row_of(now(), 1)},
      .presences = {
          {.key = row_of(now(), 1).key, .region = "east", .until = now() + Millis(9999)}}};
  EXPECT_FALSE(store->publish(news));
  EXPECT_EQ(database.say("SELECT COUNT(*) FROM weir_cells"), std::vector<std::string>{"0"});
  database.say("RENAME TABLE away TO weir_presence");
  EXPECT_TRUE(store->publish(news));
}

TEST(MySqlStore, BlamesTheRowsThatTheColumnsRefuse) {
  const Database database;
  const auto store = store_at(database.address);
  database.say("ALTER TABLE weir_cells MODIFY identifier VARBINARY(5) NOT NULL");
  const auto refused =
      store->publish({.rows = {row_of(now(), 1), row_of(now(), 1, "longer")}, .presences = {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().retry, Retry::kPointless);
  EXPECT_EQ(store->why(), LedgerError::kBadRows);
  EXPECT_TRUE(store->publish({.rows = {row_of(now(), 1)}, .presences = {}}));
}

TEST(MySqlStore, FindsWhatCommitsLaterThanItWasWritten) {
  const Database database;
  const auto store = store_at(database.address);
  ASSERT_TRUE(store->publish({.rows = {row_of(now(), 1)}, .presences = {}}));
  Session session(database.address);
  session.say("SET time_zone = '+00:00'");
  session.say("BEGIN");
  session.say(
      "UPDATE weir_cells SET count = 5, updated_at = CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)");
  const auto before = store->changes_since({.position = now().time_since_epoch().count()});
  ASSERT_TRUE(before);
  ASSERT_EQ(before->news.rows.size(), 1u);
  EXPECT_EQ(before->news.rows[0].count, 1u);
  session.say("COMMIT");
  const auto after = store->changes_since(before->next);
  ASSERT_TRUE(after);
  ASSERT_EQ(after->news.rows.size(), 1u);
  EXPECT_EQ(after->news.rows[0].count, 5u);
}

TEST(MySqlStore, WaitsOnceForARowThatSomebodyHoldsAndBlamesTheRows) {
  const WallTime when = now();
  const Database database;
  const auto store = store_at(database.address);
  ASSERT_TRUE(store->publish({.rows = {row_of(when, 1)}, .presences = {}}));
  Session session(database.address);
  session.say("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  session.say("BEGIN");
  session.say("SELECT * FROM weir_cells WHERE identifier = 'alice' FOR UPDATE");
  const auto held =
      store->publish({.rows = {row_of(when, 2), row_of(when, 1, "bob")}, .presences = {}});
  ASSERT_FALSE(held);
  EXPECT_EQ(store->why(), LedgerError::kLocked);
  EXPECT_EQ(held.error().field, "rows");
  EXPECT_EQ(held.error().retry, Retry::kMayHelp);
  EXPECT_EQ(store->retries(), 0u);
  // Others are written meanwhile.
  EXPECT_TRUE(store->publish({.rows = {row_of(when, 1, "bob")}, .presences = {}}));
  EXPECT_FALSE(store->publish({.rows = {row_of(when, 2)}, .presences = {}}));
  session.say("ROLLBACK");
  EXPECT_TRUE(store->publish({.rows = {row_of(when, 2)}, .presences = {}}));
}

TEST(MySqlStore, CleansAroundARowThatSomebodyHolds) {
  const Database database;
  const auto store = store_at(database.address);
  const WallTime old = now() - Millis(600'000);
  LedgerNews news;
  for (int i = 0; i < 1200; ++i) {
    // Each expires a minute after the one before, the first long ago.
    news.rows.push_back(row_of(old - Millis(60'000 * (i % 20)), 1, "user-" + std::to_string(i)));
  }
  ASSERT_TRUE(store->publish(news));
  Session session(database.address);
  session.say("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  session.say("BEGIN");
  session.say("SELECT * FROM weir_cells WHERE identifier = 'user-19' FOR UPDATE");  // the first
  const auto cleaned = store->clean(5000);
  ASSERT_TRUE(cleaned) << cleaned.error().detail;
  EXPECT_EQ(cleaned->deleted, 1199u);
  session.say("ROLLBACK");
  ASSERT_TRUE(store->clean(5000));
  EXPECT_EQ(database.say("SELECT COUNT(*) FROM weir_cells"), std::vector<std::string>{"0"});
}

TEST(MySqlStore, RehearsesAllThatServingDoesAndLeavesNothingBehind) {
  MariaDbServer& server = MariaDbServer::shared();
  const LedgerAddress empty = address_of(server, server.new_database());
  const auto store = store_at(empty);
  const auto missing = store->rehearse();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().fix, "run: weir migrate --ledger " + ledgers::to_string(empty));
  ASSERT_TRUE(store->migrate());
  const auto rehearsed = store->rehearse();
  EXPECT_TRUE(rehearsed) << rehearsed.error().detail;
  for (const char* table : {"weir_cells", "weir_presence", "weir_regions", "weir_leases"}) {
    EXPECT_EQ(server.say(std::string("SELECT COUNT(*) FROM ") + table, empty.database),
              std::vector<std::string>{"0"})
        << table;
  }
  for (const char* right : {"SELECT", "SELECT, INSERT", "SELECT, INSERT, UPDATE"}) {
    server.say("CREATE OR REPLACE USER reader@'%' IDENTIFIED BY 'secret'");
    server.say(std::string("GRANT ") + right + " ON " + empty.database + ".* TO reader@'%'");
    LedgerAddress address = empty;
    address.user = "reader";
    const auto little = store_at(address)->rehearse();
    ASSERT_FALSE(little) << right;
    EXPECT_NE(little.error().fix.find("grant the user SELECT, INSERT, UPDATE and DELETE"),
              std::string::npos)
        << little.error().fix;
  }
}

TEST(MySqlStore, SaysWhatAServerHasAgainstAUserAsOftenAsItIsAsked) {
  const Database database;
  const std::string user = "locked_" + database.name;
  LedgerAddress address = database.address;
  address.user = user;
  const auto store = store_at(address);
  const std::string name = user + "@'%'";
  database.server.say("CREATE USER " + name + " IDENTIFIED BY 'secret' ACCOUNT LOCK");
  database.server.say("GRANT ALL ON " + database.name + ".* TO " + name);
  for (int i = 0; i < 3; ++i) {
    const auto locked = store->time();
    ASSERT_FALSE(locked);
    EXPECT_NE(locked.error().detail.find("4151"), std::string::npos) << locked.error().detail;
    EXPECT_NE(locked.error().fix.find("ACCOUNT UNLOCK"), std::string::npos) << locked.error().fix;
    EXPECT_EQ(store->why(), LedgerError::kRefused);
  }
  database.server.say("ALTER USER " + name + " ACCOUNT UNLOCK PASSWORD EXPIRE");
  for (int i = 0; i < 3; ++i) {
    const auto expired = store->time();
    ASSERT_FALSE(expired);
    EXPECT_NE(expired.error().detail.find("18"), std::string::npos) << expired.error().detail;
    EXPECT_NE(expired.error().fix.find("expired"), std::string::npos) << expired.error().fix;
    EXPECT_EQ(store->why(), LedgerError::kRefused);
  }
  database.server.say("ALTER USER " + name + " IDENTIFIED BY 'secret' PASSWORD EXPIRE NEVER");
  EXPECT_TRUE(store->time());
}

TEST(MySqlStore, LetsManyPublishTheSameKeysInAnyOrder) {
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
        LedgerNews news;
        for (size_t i = 0; i < kKeys; ++i) {
          const size_t key = base::split_mix(random) % kKeys;
          news.rows.push_back(row_of(start, round, std::to_string(key), region));
          news.presences.push_back({.key = news.rows.back().key,
                                    .region = region,
                                    .until = start + Millis(60'000 + round)});
        }
        // Some are over, and cleaned away while others write them.
        for (size_t i = 0; i < kKeys / 10; ++i) news.rows[i].sequence -= 3;
        if (round == kRounds) {
          for (size_t i = 0; i < kKeys; ++i) {
            news.rows.push_back(row_of(start, round, std::to_string(i), region));
          }
        }
        const auto published = store->publish(news);
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
  std::printf("deadlocks worked off: %llu\n", static_cast<unsigned long long>(retries.load()));
}

TEST(MySqlStore, CanBeReachedBySocket) {
  const Database database;
  LedgerAddress address = database.address;
  address.host.clear();
  address.socket = database.server.socket();
  EXPECT_TRUE(store_at(address)->time());
}

TEST(MySqlStore, KeepsAPasswordToItself) {
  const Database database;
  LedgerAddress address = database.address;
  address.password = "hunter2";
  const auto store = store_at(address);
  const auto time = store->time();
  ASSERT_FALSE(time);
  EXPECT_EQ(store->why(), LedgerError::kRefused);
  EXPECT_EQ((time.error().detail + time.error().fix).find("hunter2"), std::string::npos);
  address = database.address;
  address.database = "weir_of_another";
  EXPECT_FALSE(store_at(address)->time());
}

TEST(MySqlStore, RefusesAServerWithoutTlsWhereItIsRequired) {
  const Database database;
  LedgerAddress address = database.address;
  address.tls = LedgerTls::kPreferred;
  EXPECT_TRUE(store_at(address)->time());
  for (const LedgerTls tls : {LedgerTls::kRequired, LedgerTls::kVerify}) {
    address.tls = tls;
    const auto store = store_at(address);
    EXPECT_FALSE(store->time());
    EXPECT_EQ(store->why(), LedgerError::kRefused);
  }
}

TEST(MySqlStore, SpeaksTls) {
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
  server.say("ALTER USER 'weir'@'%' REQUIRE SSL");
  EXPECT_FALSE(store_at(address)->time());
  for (const LedgerTls tls : {LedgerTls::kPreferred, LedgerTls::kRequired}) {
    address.tls = tls;
    const auto time = store_at(address)->time();
    EXPECT_TRUE(time) << time.error().detail;
  }
  address.tls = LedgerTls::kVerify;
  EXPECT_FALSE(store_at(address)->time());  // nobody known has signed it
  address.tls_ca = certificate;
  const auto time = store_at(address)->time();
  EXPECT_TRUE(time) << time.error().detail;
}

LedgerNews news_of(WallTime when, Count count) {
  return {.rows = {row_of(when, count)}, .presences = {}};
}

TEST(ThreadedMySql, MayStartBeforeTheServerAndOutliveIt) {
  const WallTime when = now();  // once: the test takes seconds, and the minute may end meanwhile
  MariaDbServer server;
  const LedgerAddress address = address_of(server, server.new_database());
  ASSERT_TRUE(store_at(address)->migrate());
  server.kill();

  const Running ledger(address);
  const auto down = publish(*ledger, news_of(when, 1));
  ASSERT_FALSE(down);
  EXPECT_EQ(down.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(down.error().retry, Retry::kMayHelp);
  EXPECT_FALSE(ledger->reachable());
  await([&] { return !ledger->trouble().empty(); });

  server.restart();
  await([&] { return ledger->reachable(); });
  EXPECT_TRUE(publish(*ledger, news_of(when, 1)));
  EXPECT_EQ(read_page(*ledger)->news.rows.size(), 1u);
  EXPECT_TRUE(ledger->trouble().empty());

  server.kill();
  await([&] {
    EXPECT_FALSE(publish(*ledger, news_of(when, 2)));
    EXPECT_FALSE(changes_since(*ledger, {.position = 1}));
    return !ledger->reachable();
  });
  EXPECT_GT(ledger->metrics().errors.total(LedgerError::kUnreachable), 0u);
  EXPECT_FALSE(publish(*ledger, news_of(when, 2)));
  EXPECT_GT(ledger->metrics().errors.total(LedgerError::kCircuitOpen), 0u);

  server.restart();
  await([&] { return ledger->reachable(); });
  EXPECT_TRUE(publish(*ledger, news_of(when, 3)));
  EXPECT_EQ(read_page(*ledger)->news.rows.at(0).count, 3u);
  EXPECT_GE(ledger->metrics().connections.load(), 3u);

  // There, but silent: the caller does not wait, and hears of it.
  server.stop();
  const auto silent = publish(*ledger, news_of(when, 4));
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::kTimeout);
  server.go_on();
  await([&] { return publish(*ledger, news_of(when, 5)).ok(); });
  await([&] { return ledger->reachable(); });
}

TEST(ThreadedMySql, GoesOnReadingFromAServerThatIsReadOnly) {
  const WallTime when = now();
  const Database database;
  const Running ledger(database.address);
  ASSERT_TRUE(publish(*ledger, news_of(when, 1)));
  database.server.say("SET GLOBAL read_only = 1");
  for (int i = 0; i < 10; ++i) {
    const auto refused = publish(*ledger, news_of(when, 2));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(refused.error().retry, Retry::kMayHelp);
    EXPECT_TRUE(read_page(*ledger));
  }
  EXPECT_TRUE(ledger->reachable());
  EXPECT_EQ(ledger->metrics().errors.total(LedgerError::kReadOnly), 10u);
  EXPECT_FALSE(ledger->trouble().empty());
  database.server.say("SET GLOBAL read_only = 0");
  EXPECT_TRUE(publish(*ledger, news_of(when, 2)));
  EXPECT_TRUE(ledger->trouble().empty());
}

TEST(ThreadedMySql, ImportsWhileAPublishWaits) {
  const WallTime when = now();
  const Database database;
  const Running ledger(database.address);
  ASSERT_TRUE(publish(*ledger, news_of(when, 1)));
  Session session(database.address);
  session.say("BEGIN");
  session.say("SELECT * FROM weir_cells FOR UPDATE");
  std::atomic<bool> published{false};
  ledger->publish(news_of(when, 2), [&](const Result<size_t>& result) {
    EXPECT_TRUE(result);
    published = true;
  });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(changes_since(*ledger, {.position = 1}));
  EXPECT_FALSE(published);
  session.say("ROLLBACK");
  await([&] { return published.load(); });
}

TEST(ThreadedMySql, HearsWhileSomebodyHoldsTheRowsOfItsRegionAndItsLease) {
  const Database database;
  const Running running(database.address);
  await([&] { return running->reachable(); });
  const auto heartbeat = [&](FleetReply reply) {
    running->heartbeat({.region = "east"}, {}, std::move(reply));
  };
  ASSERT_TRUE(ledgers::waited<LedgerFleet>(heartbeat));
  const auto clean = [&](CleaningReply reply) { running->clean(100, std::move(reply)); };
  ASSERT_TRUE(ledgers::waited<LedgerCleaning>(clean));
  Session session(database.address);
  session.say("BEGIN");
  session.say("SELECT * FROM weir_regions FOR UPDATE");
  session.say("SELECT * FROM weir_leases FOR UPDATE");
  std::atomic<int> ended{0};
  running->heartbeat({.region = "east"}, {}, [&](const auto&) { ++ended; });
  running->clean(100, [&](const auto&) { ++ended; });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(changes_since(*running, {.position = 1}));
  EXPECT_EQ(ended, 0);  // they are still waiting
  session.say("ROLLBACK");
  await([&] { return ended == 2; });
}

TEST(ThreadedMySql, KnowsTheStoresClock) {
  const Database database;
  const Running ledger(database.address);
  ASSERT_TRUE(changes_since(*ledger, {}));
  EXPECT_LT(std::abs(ledger->metrics().clock_ahead.load()), 1000);
}

TEST(MySqlErrors, AreOfThatKind) {
  using ledgers::classify_mysql_error;
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

TEST(MySqlValues, AreWrittenSoThatNothingHidesInThem) {
  EXPECT_EQ(
      ledgers::with_values({.sql = "SELECT ?,?,?",
                            .values = {int64_t{-7}, std::string_view("'?\\"), std::string_view()}}),
      "SELECT -7,x'273f5c',x''");
}

TEST(MySqlStore, HasARegionHeldByOneWhoGoesOnHoldingIt) {
  const Database database;
  const auto one = store_at(database.address, {.seed = 1});
  const auto two = store_at(database.address, {.seed = 2});
  for (const std::string& region : {std::string("eu"), std::string(64, 'r')}) {
    EXPECT_EQ(one->hold_region(region, "one", {})->holder, "one");
    const auto seen = two->hold_region(region, "two", {});
    EXPECT_EQ(seen->holder, "one");
    EXPECT_EQ(two->hold_region(region, "two", *seen)->holder, "two");
    EXPECT_EQ(one->hold_region(region, "one", {})->holder, "two");
    two->release_region(region, "two");
    EXPECT_EQ(one->hold_region(region, "one", {})->holder, "one");
  }
}

}  // namespace
}  // namespace weir
