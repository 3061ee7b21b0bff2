// The threaded ledger on a real mariadbd that restarts, pauses and locks rows.

#include <atomic>
#include <cstdlib>

#include "ledgers/sql/blocking_calls_test.h"
#include "ledgers/sql/mysql_fixture_test.h"
#include "tests/servers/await.h"

namespace weir::ledgers {
namespace {

using servers::await;
using telemetry::LedgerError;

std::vector<LedgerRow> rows_of(WallTime when, Count count) {
  return {row_of(when, count)};
}

TEST(ThreadedMySql, ReconnectsAfterTheServerRestarts) {
  const WallTime when = now();  // once: the test takes seconds, and the minute may end meanwhile
  MariaDbServer server;
  const LedgerAddress address = address_of(server, server.new_database());
  ASSERT_TRUE(store_at(address)->migrate());
  server.kill();

  const RunningLedger ledger(address);
  const auto down = publish(*ledger, rows_of(when, 1));
  ASSERT_FALSE(down);
  EXPECT_EQ(down.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(down.error().retry, Retry::kMayHelp);
  EXPECT_FALSE(ledger->reachable());
  await([&] { return !ledger->last_error().empty(); });

  server.restart();
  await([&] { return ledger->reachable(); });
  EXPECT_TRUE(publish(*ledger, rows_of(when, 1)));
  EXPECT_EQ(read_page(*ledger)->rows.size(), 1u);
  EXPECT_TRUE(ledger->last_error().empty());

  server.kill();
  await([&] {
    EXPECT_FALSE(publish(*ledger, rows_of(when, 2)));
    EXPECT_FALSE(read_feeds(*ledger));
    return !ledger->reachable();
  });
  EXPECT_GT(ledger->metrics().errors.total(LedgerError::kUnreachable), 0u);
  EXPECT_FALSE(publish(*ledger, rows_of(when, 2)));
  EXPECT_GT(ledger->metrics().errors.total(LedgerError::kCircuitOpen), 0u);

  server.restart();
  await([&] { return ledger->reachable(); });
  EXPECT_TRUE(publish(*ledger, rows_of(when, 3)));
  EXPECT_EQ(read_page(*ledger)->rows.at(0).count, 3u);
  EXPECT_GE(ledger->metrics().connections.load(), 3u);

  // The server does not answer: the call times out.
  server.pause();
  const auto silent = publish(*ledger, rows_of(when, 4));
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::kTimeout);
  server.resume();
  await([&] { return publish(*ledger, rows_of(when, 5)).ok(); });
  await([&] { return ledger->reachable(); });
}

TEST(ThreadedMySql, ReadsFromAReadOnlyServer) {
  const WallTime when = now();
  const Database database;
  const RunningLedger ledger(database.address);
  ASSERT_TRUE(publish(*ledger, rows_of(when, 1)));
  database.server.query("SET GLOBAL read_only = 1");
  for (int i = 0; i < 10; ++i) {
    const auto refused = publish(*ledger, rows_of(when, 2));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(refused.error().retry, Retry::kMayHelp);
    EXPECT_TRUE(read_page(*ledger));
  }
  EXPECT_TRUE(ledger->reachable());
  EXPECT_EQ(ledger->metrics().errors.total(LedgerError::kReadOnly), 10u);
  EXPECT_FALSE(ledger->last_error().empty());
  database.server.query("SET GLOBAL read_only = 0");
  EXPECT_TRUE(publish(*ledger, rows_of(when, 2)));
  EXPECT_TRUE(ledger->last_error().empty());
}

// No lock times out while the test reads.
std::shared_ptr<ThreadedLedger> waiting_for_locks(const LedgerAddress& address) {
  const auto store = [&](uint64_t seed) { return store_at(address, seed, Millis(50'000)); };
  return make_threaded_ledger(system_clock(), store, 1);
}

TEST(ThreadedMySql, ImportsWhileAPublishWaits) {
  const WallTime when = now();
  const Database database;
  const RunningLedger ledger(waiting_for_locks(database.address));
  ASSERT_TRUE(publish(*ledger, rows_of(when, 1)));
  Session session(database.address);
  session.query("BEGIN");
  session.query("SELECT * FROM weir_cells FOR UPDATE");
  std::atomic<bool> published{false};
  ledger->publish("east", {}, rows_of(when, 2), [&](const Result<FeedPosition>& result) {
    EXPECT_TRUE(result);
    published = true;
  });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(read_feeds(*ledger));
  EXPECT_FALSE(published);
  session.query("ROLLBACK");
  await([&] { return published.load(); });
}

TEST(ThreadedMySql, ImportsWhileHeartbeatAndCleaningWaitForLocks) {
  const Database database;
  const RunningLedger running(waiting_for_locks(database.address));
  await([&] { return running->reachable(); });
  const auto heartbeat = [&](FleetReply reply) {
    running->heartbeat({.region = "east"}, {}, std::move(reply));
  };
  ASSERT_TRUE(wait_for<LedgerFleet>(heartbeat));
  const auto clean = [&](CleaningReply reply) { running->clean(100, std::move(reply)); };
  ASSERT_TRUE(wait_for<LedgerCleaning>(clean));
  Session session(database.address);
  session.query("BEGIN");
  session.query("SELECT * FROM weir_regions FOR UPDATE");
  session.query("SELECT * FROM weir_leases FOR UPDATE");
  std::atomic<int> answered{0};
  running->heartbeat({.region = "east"}, {}, [&](const auto&) { ++answered; });
  running->clean(100, [&](const auto&) { ++answered; });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(read_feeds(*running));
  EXPECT_EQ(answered, 0);  // both still wait
  session.query("ROLLBACK");
  await([&] { return answered == 2; });
}

TEST(ThreadedMySql, MeasuresTheClockOfTheStore) {
  const Database database;
  const RunningLedger ledger(database.address);
  await([&] { return ledger->reachable(); });
  EXPECT_LT(std::abs(ledger->metrics().clock_ahead.load()), 1000);
}

}  // namespace
}  // namespace weir::ledgers
