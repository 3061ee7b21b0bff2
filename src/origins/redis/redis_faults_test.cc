// A real redis-server with partial faults: it refuses writes, loses its data, or its clock differs
// from ours.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "origins/redis/running_redis_test.h"

namespace weir::origins {
namespace {

constexpr Millis kHour{3'600'000};

bool has_expiry(const RedisServer& server, const CellId& cell) {
  return expiry(server, redis_key(cell)) > WallTime{};
}

uint64_t heartbeat_commands(const RunningOrigin& origin) {
  return origin->metrics().commands.total(OriginCommand::kNodes);
}

// Waits for so many more heartbeat commands; a heartbeat sends four or five.
void await_heartbeats(const RunningOrigin& origin, uint64_t commands) {
  const uint64_t before = heartbeat_commands(origin);
  await([&] { return heartbeat_commands(origin) >= before + commands; });
}

struct Refusal {
  const char* name;
  const char* begin;
  const char* end;
  OriginError error;
  const char* remedy;
};

constexpr Refusal kRefusals[] = {
    {"OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", OriginError::kOutOfMemory,
     "raise maxmemory"},
    {"READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", OriginError::kReadOnly,
     "give the address of the master"},
    {"NOREPLICAS", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0",
     OriginError::kWritesRefused, "min-replicas-to-write"},
};

TEST(RedisFaults, ReportsRefusedWritesUntilTheyAreAccepted) {
  for (const Refusal& refusal : kRefusals) {
    SCOPED_TRACE(refusal.name);
    const RealClock clock;
    const RedisServer server;
    const RunningOrigin origin(clock, server.port());
    await([&] { return origin->reach() == Reach::kPrompt; });
    (void)server.ask(refusal.begin);
    // Without any replay: the heartbeat detects it.
    await([&] { return origin->reach() == Reach::kReadOnly; });
    EXPECT_FALSE(origin->metrics().writable);
    EXPECT_NE(origin->write_refusal().find(refusal.name), std::string::npos)
        << origin->write_refusal();
    EXPECT_NE(origin->write_refusal().find(refusal.remedy), std::string::npos)
        << origin->write_refusal();
    EXPECT_GE(origin->metrics().errors.total(refusal.error), 1u);
    EXPECT_TRUE(origin->metrics().closed);  // the server answers, so the breaker stays closed
    (void)server.ask(refusal.end);
    await([&] { return origin->reach() == Reach::kPrompt; });
    EXPECT_TRUE(origin->metrics().writable);
    EXPECT_EQ(origin->write_refusal(), "");
    EXPECT_TRUE(origin.replay({replay_of("a", 1)}).ok());
  }
}

// Redis refuses writes after a failed save to disk.
TEST(RedisFaults, ReportsRefusedWritesAfterAFailedSave) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  await([&] { return origin->reach() == Reach::kPrompt; });
  (void)server.ask("CONFIG SET save \"3600 1\"");
  const std::string answer = server.ask("CONFIG GET dir");
  const size_t at = answer.find('/');
  std::filesystem::remove_all(answer.substr(at, answer.find('\r', at) - at));
  (void)server.ask("BGSAVE");
  await([&] {
    return server.ask("INFO persistence").find("rdb_last_bgsave_status:err") != std::string::npos;
  });
  EXPECT_FALSE(origin.replay({replay_of("a", 1)}).ok());
  EXPECT_EQ(origin->reach(), Reach::kReadOnly);
  EXPECT_NE(origin->write_refusal().find("MISCONF"), std::string::npos) << origin->write_refusal();
}

TEST(RedisFaults, DetectsARefusalAtTheFirstWrite) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  await([&] { return origin->reach() == Reach::kPrompt; });
  (void)server.ask("CONFIG SET maxmemory 1");
  EXPECT_FALSE(origin.replay({replay_of("a", 1)}).ok());
  EXPECT_EQ(origin->reach(), Reach::kReadOnly);
}

TEST(RedisFaults, KeepsTheLastNodeListWhileHeartbeatsAreRefused) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin one(clock, server.port(), {}, 1);
  const RunningOrigin two(clock, server.port(), {}, 2);
  const RunningOrigin three(clock, server.port(), {}, 3);
  const auto all_know = [&] {
    return one->live_nodes() == 3 && two->live_nodes() == 3 && three->live_nodes() == 3 &&
           one->rank() + two->rank() + three->rank() == 3;
  };
  // Without a heartbeat for some time the server may drop a node before it refuses heartbeats.
  do {
    (void)server.ask("CONFIG SET maxmemory 0");
    await(all_know);
    (void)server.ask("CONFIG SET maxmemory 1");
    for (const RunningOrigin* node : {&one, &two, &three}) {
      await([&] { return (*node)->reach() == Reach::kReadOnly; });
    }
  } while (!all_know());
  await_heartbeats(one, 25);  // longer than the node timeout
  await_heartbeats(three, 5);
  EXPECT_TRUE(all_know());
  (void)server.ask("CONFIG SET maxmemory 0");
  await_heartbeats(one, 5);
  await(all_know);
}

TEST(RedisFaults, KeepsTheNodeCountWhenRedisLosesTheNodeList) {
  const RealClock clock;
  const RedisServer server;
  // A node that is late on a busy machine stays live.
  constexpr RedisTimeouts kLong{
      .connect = kPatient.connect, .reply = kPatient.reply, .node = kPatient.reply};
  const RunningOrigin one(clock, server.port(), {}, 1, kLong);
  const RunningOrigin two(clock, server.port(), {}, 2, kLong);
  await([&] { return one->live_nodes() == 2 && two->live_nodes() == 2; });
  std::atomic<bool> ended{false};
  std::atomic<uint32_t> fewest{2};
  std::thread watcher([&] {
    await([&] {
      fewest = std::min({fewest.load(), one->live_nodes(), two->live_nodes()});
      return ended.load();
    });
  });
  for (int i = 0; i < 3; ++i) {
    (void)server.ask("DEL weir:nodes");
    await_heartbeats(one, 10);
  }
  ended = true;
  watcher.join();
  EXPECT_EQ(fewest, 2u);
}

TEST(RedisFaults, SetsAllExpiriesIfOneWriteOfManyIsRefused) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  const std::vector<CellReplay> cells = {replay_of("a", 1), replay_of("b", 1), replay_of("c", 1)};
  // The server refuses all writes, and with them the expiries.
  (void)server.ask("CONFIG SET maxmemory 1");
  EXPECT_FALSE(origin.replay(cells).ok());
  (void)server.ask("CONFIG SET maxmemory 0");
  // Now it refuses only the first one.
  (void)server.ask("ACL SETUSER default resetkeys ~weir:nodes ~weir:version ~" +
                   redis_key({"b", 5}) + " ~" + redis_key({"c", 5}));
  EXPECT_FALSE(origin.replay(cells).ok());
  for (const CellReplay& cell : {cells[1], cells[2]}) {
    await([&] { return has_expiry(server, cell.cell); });
  }
}

TEST(RedisFaults, RetriesARefusedExpiry) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  await([&] { return origin->reach() == Reach::kPrompt; });
  (void)server.ask("ACL SETUSER default -pexpire");
  const CellReplay cell = replay_of("a", 1);
  (void)origin.replay({cell});
  ASSERT_EQ(server.ask("PTTL " + redis_key(cell.cell)), ":-1\r\n");
  (void)server.ask("ACL SETUSER default +pexpire");
  await([&] { return has_expiry(server, cell.cell); });
}

TEST(RedisFaults, RestoresDepartedCountsAfterDataLoss) {
  const RealClock clock;
  RedisServer server;
  const RunningOrigin remaining(clock, server.port(), {}, 1);
  const RunningOrigin departing(clock, server.port(), {}, 2);
  remaining.await_ready();
  departing.await_ready();
  ASSERT_TRUE(departing.replay({replay_of("a", 90, kSibling)}).ok());
  EXPECT_EQ(*departing.retire({{.cell = {"a", 5}, .writer = kSibling}}), 1u);
  // The remaining node reads the departed count with its replay.
  EXPECT_EQ(remaining.replay({replay_of("a", 10)})->at(0).siblings, 90u);
  for (const bool restart : {false, true}) {
    if (restart) {
      server.restart();
    } else {
      (void)server.ask("FLUSHALL");
    }
    await([&] { return remaining.replay({replay_of("a", 10)}).ok(); });
    const RunningOrigin newcomer(clock, server.port(), {}, 3);
    newcomer.await_ready();
    constexpr Component kNewcomer{.incarnation = 0x123, .generation = 1};
    await([&] {
      const auto received = newcomer.read({read_of("a", kNewcomer)});
      return received.ok() && received->at(0).siblings == 100;
    });
    EXPECT_TRUE(has_expiry(server, {"a", 5}));
  }
  // Two nodes restore the same count: it counts once.
  const RunningOrigin second(clock, server.port(), {}, 4);
  second.await_ready();
  EXPECT_EQ(second.replay({replay_of("a", 1, kSibling)})->at(0).siblings, 100u);
  (void)server.ask("FLUSHALL");
  ASSERT_TRUE(second.replay({replay_of("a", 1, kSibling)}).ok());
  ASSERT_TRUE(remaining.replay({replay_of("a", 10)}).ok());
  ASSERT_TRUE(second.read({read_of("a")}).ok());
  await([&] {
    const auto received = remaining.read({read_of("a")});
    return received.ok() && received->at(0).siblings == 91;
  });
}

TEST(RedisFaults, SetsTheRightExpiryWithASlowClock) {
  const RealClock slow(-kHour);
  const RedisServer server;
  const RunningOrigin origin(slow, server.port());
  origin.await_ready();
  CellReplay cell = replay_of("a", 3);
  const WallTime right = cell.expires_at;
  cell.expires_at -= kHour;  // the same time by its own clock
  ASSERT_TRUE(origin.replay({cell}).ok());
  EXPECT_GE(expiry(server, redis_key(cell.cell)), right + kExpiryMargin);
  EXPECT_EQ(origin.replay({cell})->at(0).mine, 3u);
}

TEST(RedisFaults, KeepsSiblingsInTheNodeListWithAWrongClock) {
  for (const Millis offset : {kHour, -kHour}) {
    const RealClock right;
    const RealClock wrong(offset);
    const RedisServer server;
    const RunningOrigin sibling(right, server.port(), {}, 1);
    await([&] { return number_in(server.ask("ZCARD weir:nodes")) == 1; });
    const uint64_t epoch = sibling->epoch();
    const RunningOrigin origin(wrong, server.port(), {}, 2);
    await([&] { return origin->live_nodes() == 2 && sibling->live_nodes() == 2; });
    await_heartbeats(sibling, 10);
    await([&] { return origin->live_nodes() == 2 && sibling->live_nodes() == 2; });
    EXPECT_EQ(sibling->epoch(), epoch);  // the sibling stayed in the list
  }
}

}  // namespace
}  // namespace weir::origins
