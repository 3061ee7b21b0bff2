// Each store is created by its factory, and the test doubles work without any server.

#include <weir/mysql.h>
#include <weir/redis.h>
#include <weir/sqlite.h>
#include <weir/testing.h>
#include <weir/weir.h>

#include <cstdio>

int main() {
  weir::test::ManualClock clock;
  const auto redis = weir::redis_origin({.port = 1, .connect_wait = weir::Millis(0)});
  const auto mysql = weir::mysql_ledger({.host = "127.0.0.1", .port = 1, .database = "d"});
  const auto sqlite = weir::sqlite_ledger({.path = "ledger.db"});
  if (!redis || !mysql || !sqlite) return std::puts("a store was not created"), 1;
  if (weir::mysql_ledger({.host = "127.0.0.1"})) return std::puts("no database"), 1;

  const auto origin = std::make_shared<weir::test::FaultyOrigin>(
      weir::make_in_process_origin(clock), 1, weir::test::FaultRates{});
  const weir::test::MemoryLedgerStore store(clock);
  auto limiter = weir::Limiter::create(
      clock, {.origin = origin, .ledger = store.connect(), .region = "east", .capacity = 1024});
  if (!limiter) return std::puts(limiter.error().detail.c_str()), 1;
  const weir::Request request = {
      .ns = "api", .identifier = "alice", .limit = 3, .duration = std::chrono::minutes(1)};
  if (limiter->check(request)->basis != weir::Basis::kRefreshed) return std::puts("not read"), 1;
  clock.advance(std::chrono::seconds(30));
  origin->plan.disconnect();
  if (limiter->check(request)->basis != weir::Basis::kDegraded) return std::puts("read"), 1;
  std::puts("all components work");
}
