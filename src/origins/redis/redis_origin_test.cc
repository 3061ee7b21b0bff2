// The origin contract on a real redis-server, and the behaviour that needs a real one.

#include "origins/redis/redis_origin.h"

#include <malloc.h>

#include <atomic>

#if defined(WEIR_SANITIZED)
#include <sanitizer/allocator_interface.h>
#endif

#include "origins/redis/running_redis_test.h"
#include "tests/contracts/bridge_contract.h"
#include "tests/contracts/exact_contract.h"
#include "tests/contracts/origin_contract.h"

namespace weir {
namespace contracts {

using origins::read_of;
using origins::RealClock;
using origins::RedisAddress;
using origins::RunningOrigin;
using servers::RedisServer;

struct InRedis {
  using Clock = RealClock;
  static constexpr bool kTimeIsReal = true;
  explicit InRedis(const Clock& at) : clock(at), running(at, server.port()) {
    running.await_ready();
  }
  [[nodiscard]] std::shared_ptr<RegionalOrigin> make() const { return running.origin(); }
  [[nodiscard]] std::shared_ptr<RegionalOrigin> another() {
    second.emplace(clock, server.port(), RedisAddress{}, 2);
    second->await_ready();
    return second->origin();
  }
  // Replies come in order: after this one all earlier replies are there.
  void settle() const { (void)running.read({read_of("settle")}); }
  void age(const CellId& cell, Millis by) const {
    const std::string key = origins::redis_key(cell);
    const WallTime at = origins::expiry(server, key) - by;
    (void)server.ask("PEXPIREAT " + key + " " + std::to_string(at.time_since_epoch().count()));
  }
  void await_subscribers(size_t count) const {
    await([&] { return origins::subscribers(server) == count; });
  }
  template <typename Condition>
  void await(const Condition& condition) const {
    servers::await(condition);
  }
  const Clock& clock;
  RedisServer server;
  RunningOrigin running;
  std::optional<RunningOrigin> second;
};

INSTANTIATE_TYPED_TEST_SUITE_P(RedisOrigin, OriginContract, InRedis);
INSTANTIATE_TYPED_TEST_SUITE_P(RedisOrigin, BridgeContract, InRedis);
INSTANTIATE_TYPED_TEST_SUITE_P(RedisOrigin, ExactContract, InRedis);

}  // namespace contracts

namespace origins {
namespace {

TEST(RedisOrigin, SetsTheExpiryOfACell) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  const WallTime before = in(0);
  const CellReplay cell = replay_of("a", 3);
  ASSERT_TRUE(origin.replay({cell}).ok());
  const WallTime expires = expiry(server, redis_key(cell.cell));
  EXPECT_GE(expires, cell.expires_at + kExpiryMargin);
  EXPECT_LE(expires, cell.expires_at + kExpiryMargin + (in(0) - before));
}

TEST(RedisOrigin, KeepsALongerExpiryOfACell) {
  const RealClock clock;
  const RealClock ahead(Millis(20'000));
  const RedisServer server;
  const RunningOrigin one(clock, server.port(), {}, 1);
  const RunningOrigin two(ahead, server.port(), {}, 2);
  one.await_ready();
  two.await_ready();
  ASSERT_TRUE(one.replay({replay_of("a", 3)}).ok());
  const WallTime expires = expiry(server, redis_key({"a", 5}));
  ASSERT_TRUE(two.replay({replay_of("a", 4, kSibling)}).ok());
  EXPECT_EQ(expiry(server, redis_key({"a", 5})), expires);
}

// Of the process, by all threads.
size_t allocated_bytes() {
#if defined(WEIR_SANITIZED)
  return __sanitizer_get_current_allocated_bytes();
#else
  return mallinfo2().uordblks;
#endif
}

TEST(RedisOrigin, KeepsNoMemoryOfTheCellsThatItWrote) {
  constexpr size_t kCalls = 20;
  constexpr size_t kCellsPerCall = 1000;
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  const auto write_new_cells = [&](const std::string& name) {
    std::vector<CellReplay> cells;
    for (size_t i = 0; i < kCellsPerCall; ++i) {
      cells.push_back(replay_of(name + " " + std::to_string(i), 1));
    }
    ASSERT_TRUE(origin.replay(cells).ok());
  };
  write_new_cells("buffers of the connection");
  const size_t before = allocated_bytes();
  for (size_t call = 0; call < kCalls; ++call) write_new_cells(std::to_string(call));
  const size_t after = allocated_bytes();
  // Less than a hash and an entry of a table for each.
  EXPECT_LT(after, before + 60 * kCalls * kCellsPerCall) << before;
}

TEST(RedisOrigin, IgnoresValuesThatAreNotACount) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  ASSERT_TRUE(origin.replay({replay_of("a", 3), replay_of("a", 4, kSibling)}).ok());
  const std::string key = redis_key({"a", 5});
  for (const char* value :
       {"-1", "1.5", "many", "\"\"", "99999999999999999999", "20000000000000"}) {
    (void)server.ask("HSET " + key + " f" + std::to_string(std::hash<std::string>()(value)) + " " +
                     value);
  }
  const auto received = origin.read({read_of("a")});
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(received->at(0).mine, 3u);
  EXPECT_EQ(received->at(0).siblings, 4u);
  EXPECT_EQ(origin->metrics().invalid, 6u);
}

TEST(RedisOrigin, FailsAtOnceWithoutAServerAndReconnects) {
  const RealClock clock;
  RedisServer server;
  server.kill();
  const RunningOrigin origin(clock, server.port());
  EXPECT_FALSE(origin.read({read_of("a")}).ok());
  EXPECT_FALSE(origin->last_error().empty());
  server.restart();
  origin.await_ready();
  EXPECT_TRUE(origin.replay({replay_of("a", 1)}).ok());
  EXPECT_EQ(origin->last_error(), "");
}

TEST(RedisOrigin, FailsCallsInFlightWhenTheServerDies) {
  const RealClock clock;
  RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  ASSERT_TRUE(origin.replay({replay_of("a", 3)}).ok());
  // Paused first, so that the server cannot answer before it dies.
  server.pause();
  std::atomic<int> answered{0};
  std::atomic<int> failed{0};
  for (int i = 0; i < 3; ++i) {
    origin->read({read_of("a")}, [&](const Result<std::vector<CellTotals>>& totals) {
      ++(totals ? answered : failed);
    });
  }
  server.restart();
  await([&] { return answered + failed == 3; });
  EXPECT_EQ(answered, 0);
  await([&] { return origin.read({read_of("a")}).ok(); });
  // The server is empty now. The reply shows the node that it must replay its count.
  EXPECT_EQ(origin.read({read_of("a")})->at(0).mine, 0u);
  EXPECT_EQ(origin.replay({replay_of("a", 3)})->at(0).mine, 3u);
}

TEST(RedisOrigin, SendsTheExpiryAgainAfterARestart) {
  const RealClock clock;
  RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  const CellReplay cell = replay_of("a", 3);
  ASSERT_TRUE(origin.replay({cell}).ok());
  server.restart();
  await([&] { return origin.replay({cell}).ok(); });
  await([&] {
    return origin.replay({cell}).ok() && expiry(server, redis_key(cell.cell)) > WallTime{};
  });
}

TEST(RedisOrigin, ChangesItsEpochAfterAFlush) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  await([&] { return server.ask("ZCARD weir:nodes") == ":1\r\n"; });
  const uint64_t before = origin->epoch();
  (void)server.ask("FLUSHALL");
  await([&] { return origin->epoch() != before; });
}

TEST(RedisOrigin, SendsTheExpiryAgainAfterAFlush) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  const CellReplay cell = replay_of("a", 3);
  ASSERT_TRUE(origin.replay({cell}).ok());
  (void)server.ask("FLUSHALL");
  ASSERT_TRUE(origin.replay({cell}).ok());
  ASSERT_TRUE(origin.read({read_of("a")}).ok());  // replies come in order
  EXPECT_GT(expiry(server, redis_key(cell.cell)), WallTime{});
}

TEST(RedisOrigin, KillsItsPreviousConnectionBeforeItWrites) {
  const RealClock clock;
  RedisServer server;
  const RunningOrigin origin(clock, server.port(), {}, 1, kImpatient);
  origin.await_ready();
  (void)server.ask("CONFIG RESETSTAT");
  server.pause();
  EXPECT_FALSE(origin.read({read_of("a")}).ok());
  server.resume();
  await([&] { return origin.read({read_of("a")}).ok(); });
  EXPECT_NE(server.ask("INFO commandstats").find("client|kill:calls="), std::string::npos);
}

TEST(RedisOrigin, KillsNoOtherClientWithTheSameConnectionId) {
  const RealClock clock;
  RedisServer server;
  const RunningOrigin one(clock, server.port(), {}, 1);
  one.await_ready();
  const RunningOrigin two(clock, server.port(), {}, 2);
  two.await_ready();
  const auto connections = [](const RunningOrigin& running) -> uint64_t {
    return running->metrics().connections;
  };
  for (int i = 0; i < 5; ++i) {
    const uint64_t before[] = {connections(one), connections(two)};
    server.restart();  // ids start again, and the two origins connect in any order
    await([&] { return connections(one) != before[0] && connections(two) != before[1]; });
    const uint64_t after[] = {connections(one), connections(two)};
    ASSERT_TRUE(one.read({read_of("a")}).ok() && two.read({read_of("a")}).ok());
    EXPECT_EQ(connections(one), after[0]);
    EXPECT_EQ(connections(two), after[1]);
  }
}

TEST(RedisOrigin, WorksWithoutPermissionToKillConnections) {
  const RealClock clock;
  const RedisServer server;
  (void)server.ask("ACL SETUSER default -client");
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  EXPECT_TRUE(origin.replay({replay_of("a", 1)}).ok());
}

TEST(RedisOrigin, ReplacesAConnectionThatDoesNotAnswer) {
  const RealClock clock;
  RedisServer server;
  const RunningOrigin origin(clock, server.port(), {}, 1, kImpatient);
  origin.await_ready();
  server.pause();
  EXPECT_FALSE(origin.read({read_of("a")}).ok());
  server.resume();
  await([&] { return origin.read({read_of("a")}).ok(); });
}

TEST(RedisOrigin, OpensTheBreakerAndClosesItAfterAProbe) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  // A replica without its master answers each call with an error, also the first one of a
  // connection: so a connection that was replaced on a busy machine needs a master again.
  (void)server.ask("CONFIG SET replica-serve-stale-data no");
  (void)server.ask("REPLICAOF 127.0.0.1 1");
  await([&] {
    EXPECT_FALSE(origin.read({read_of("a")}).ok());
    if (!origin->metrics().ready) {
      (void)server.ask("REPLICAOF NO ONE");
      origin.await_ready();
      (void)server.ask("REPLICAOF 127.0.0.1 1");
    }
    return !origin->metrics().closed;
  });
  EXPECT_EQ(origin->reach(), Reach::kNone);
  EXPECT_FALSE(origin.read({read_of("b")}).ok());
  EXPECT_GT(origin->metrics().errors.total(OriginError::kCircuitOpen), 0u);
  EXPECT_GE(origin->metrics().errors.total(OriginError::kLoading), 20u);
  (void)server.ask("REPLICAOF NO ONE");
  await([&] { return origin->reach() == Reach::kPrompt; });
  EXPECT_TRUE(origin.read({read_of("b")}).ok());
}

TEST(RedisOrigin, IgnoresAKeyOfAnotherType) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  (void)server.ask("SET " + redis_key({"a", 5}) + " x");
  const auto received = origin.replay({replay_of("b", 1), replay_of("a", 2), replay_of("c", 3)});
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(origin.read({read_of("c"), read_of("a"), read_of("b")})->at(0).mine, 3u);
  EXPECT_EQ(origin->metrics().errors.total(OriginError::kWrongType), 2u);
  EXPECT_EQ(origin.read({read_of("b")})->at(0).mine, 1u);
}

TEST(RedisOrigin, ReadsFromAServerThatIsOutOfMemory) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  ASSERT_TRUE(origin.replay({replay_of("a", 1)}).ok());
  (void)server.ask("CONFIG SET maxmemory 1");
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(origin.replay({replay_of("a", 2)}).ok());
  EXPECT_EQ(origin.read({read_of("a")})->at(0).mine, 1u);
  // The heartbeat is also refused.
  EXPECT_GE(origin->metrics().errors.total(OriginError::kOutOfMemory), 30u);
  EXPECT_TRUE(origin->metrics().closed);
  (void)server.ask("CONFIG SET maxmemory 0");
  EXPECT_EQ(origin.replay({replay_of("a", 2)})->at(0).mine, 2u);
}

TEST(RedisOrigin, LoadsTheRetireScriptAgainAfterAScriptFlush) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  ASSERT_TRUE(
      origin.replay({replay_of("a", 3), replay_of("b", 4), replay_of("a", 5, kSibling)}).ok());
  EXPECT_EQ(*origin.retire({{.cell = {"a", 5}, .writer = kNode}}), 1u);
  (void)server.ask("SCRIPT FLUSH");
  EXPECT_EQ(*origin.retire({{.cell = {"a", 5}, .writer = kNode},
                            {.cell = {"a", 5}, .writer = kSibling},
                            {.cell = {"b", 5}, .writer = kNode}}),
            2u);
  EXPECT_EQ(origin->metrics().errors.total(OriginError::kNoScript), 1u);
  EXPECT_EQ(origin.read({read_of("a")})->at(0).siblings, 8u);
  EXPECT_EQ(server.ask("HLEN " + redis_key({"a", 5})), ":1\r\n");
}

TEST(RedisOrigin, KeepsAComponentIfItsRetirementFails) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  ASSERT_TRUE(origin.replay({replay_of("a", 3)}).ok());
  (void)server.ask("HSET " + redis_key({"a", 5}) + " departed nonsense");
  EXPECT_FALSE(origin.retire({{.cell = {"a", 5}, .writer = kNode}}).ok());
  EXPECT_EQ(origin.read({read_of("a")})->at(0).mine, 3u);
}

TEST(RedisOrigin, ReportsASlowServer) {
  const RealClock clock;
  RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  await([&] { return origin->reach() == Reach::kPrompt; });
  server.pause();
  std::atomic<bool> answered{false};
  origin->read({read_of("a")}, [&](const auto&) { answered = true; });
  await([&] { return origin->reach() == Reach::kSlow; });
  EXPECT_FALSE(answered);  // long before the reply timeout
  server.resume();
  await([&] { return origin->reach() == Reach::kPrompt && answered; });
}

TEST(RedisOrigin, ReportsAuthenticationErrors) {
  const RealClock clock;
  const RedisServer server({"--requirepass", "secret"});
  const RunningOrigin without(clock, server.port());
  await([&] { return without->last_error().find("NOAUTH") != std::string::npos; });
  const RunningOrigin wrong(clock, server.port(), {.password = "guess"});
  await([&] { return wrong->last_error().find("WRONGPASS") != std::string::npos; });
  const RunningOrigin right(clock, server.port(), {.password = "secret"});
  right.await_ready();
  EXPECT_TRUE(right.replay({replay_of("a", 1)}).ok());
  const RunningOrigin named(clock, server.port(), {.user = "default", .password = "secret"});
  named.await_ready();
}

TEST(RedisOrigin, SeparatesDatabases) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin one(clock, server.port(), {.database = 1});
  const RunningOrigin two(clock, server.port(), {.database = 2});
  one.await_ready();
  two.await_ready();
  ASSERT_TRUE(one.replay({replay_of("a", 3)}).ok());
  EXPECT_EQ(two.read({read_of("a")})->at(0).mine, 0u);
}

TEST(RedisOrigin, CountsAndRanksLiveNodes) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin one(clock, server.port(), {}, 1);
  await([&] {
    return one->live_nodes() == 1 && one->metrics().commands.total(OriginCommand::kNodes) >= 3;
  });
  {
    const RunningOrigin two(clock, server.port(), {}, 2);
    await([&] { return one->live_nodes() == 2 && two->live_nodes() == 2; });
    await([&] { return one->rank() == 0 && two->rank() == 1; });
  }
  await([&] { return one->live_nodes() == 1; });
  EXPECT_EQ(server.ask("ZCARD weir:nodes"), ":1\r\n");  // it removed itself
}

TEST(RedisOrigin, ReconnectsWhenTheServerBecomesAReplica) {
  const RealClock clock;
  RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  (void)server.ask("REPLICAOF 127.0.0.1 1");
  await([&] {
    (void)origin.replay({replay_of("a", 1)});
    return origin->last_error().find("readonly") != std::string::npos;
  });
  (void)server.ask("REPLICAOF NO ONE");
  await([&] { return origin.replay({replay_of("a", 1)}).ok(); });
}

}  // namespace
}  // namespace origins
}  // namespace weir
