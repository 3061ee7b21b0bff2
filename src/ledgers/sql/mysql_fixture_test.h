// Connections, databases and ledgers on the shared mariadbd.

#pragma once

#include <gtest/gtest.h>
#include <mysql.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ledgers/sql/make_ledger.h"
#include "tests/servers/mariadb_server.h"

namespace weir::ledgers {

using servers::MariaDbServer;

inline LedgerAddress address_of(const MariaDbServer& server, std::string database) {
  return {.kind = LedgerKind::kMySql,
          .host = "127.0.0.1",
          .port = server.port(),
          .user = "weir",
          .password = "secret",
          .database = std::move(database),
          .tls = LedgerTls::kOff};
}

// On a busy machine a call may take seconds; no test of a store expects a timeout.
inline std::unique_ptr<LedgerStore> store_at(const LedgerAddress& address, uint64_t seed = 1,
                                             std::optional<Millis> lock_timeout = std::nullopt) {
  return make_store(system_clock(), address,
                    {.seed = seed,
                     .connect_timeout = Millis(60'000),
                     .answer_timeout = Millis(60'000),
                     .lock_timeout = lock_timeout});
}

inline WallTime now() {
  return system_clock().now().wall;
}

// A new database on the shared server, with its tables.
struct Database {
  Database() { EXPECT_TRUE(store_at(address)->migrate()); }
  MariaDbServer& server = MariaDbServer::shared();
  const std::string name = server.new_database();
  const LedgerAddress address = address_of(server, name);

  std::vector<std::string> query(const std::string& sql) const { return server.query(sql, name); }
};

// Starts a ledger, and stops it at the end.
struct RunningLedger {
  explicit RunningLedger(const LedgerAddress& address)
      : RunningLedger(make_ledger(system_clock(), address, 1)) {}
  explicit RunningLedger(std::shared_ptr<ThreadedLedger> made) : ledger(std::move(made)) {
    ledger->start();
  }
  ~RunningLedger() { ledger->stop(); }
  RunningLedger(const RunningLedger&) = delete;
  RunningLedger& operator=(const RunningLedger&) = delete;
  ThreadedLedger* operator->() const { return ledger.get(); }
  ThreadedLedger& operator*() const { return *ledger; }
  const std::shared_ptr<ThreadedLedger> ledger;
};

// A connection on which a test holds locks and transactions open.
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
  void query(const std::string& sql) {
    EXPECT_EQ(mysql_real_query(server_, sql.data(), sql.size()), 0) << mysql_error(server_);
    mysql_free_result(mysql_store_result(server_));
  }
  // All columns as text; "NULL" for none.
  std::vector<std::vector<std::string>> rows(const std::string& sql) {
    EXPECT_EQ(mysql_real_query(server_, sql.data(), sql.size()), 0) << mysql_error(server_);
    std::vector<std::vector<std::string>> rows;
    MYSQL_RES* const result = mysql_store_result(server_);
    if (result == nullptr) return rows;
    while (MYSQL_ROW row = mysql_fetch_row(result)) {
      auto& columns = rows.emplace_back();
      for (unsigned i = 0; i < mysql_num_fields(result); ++i) {
        columns.emplace_back(row[i] == nullptr ? "NULL" : row[i]);
      }
    }
    mysql_free_result(result);
    return rows;
  }

 private:
  MYSQL* const server_ = mysql_init(nullptr);
};

}  // namespace weir::ledgers
