// A real redis-server that half works: it answers reads and refuses writes, its memory is lost, or
// its clock is not ours.

#include <atomic>
#include <filesystem>

#include "origins/redis/running_redis_test.h"

namespace weir::origins {
namespace {

constexpr Millis kHour{3'600'000};

int64_t number_in(const std::string& reply) {
  return std::stoll(reply.substr(1));
}

int64_t milliseconds_left(const RedisServer& server, const CellId& cell) {
  return number_in(server.ask("PTTL " + redis_key(cell)));
}

uint64_t beats(const Running& origin) {
  return origin->metrics().commands.total(OriginCommand::kNodes);
}

// Waits for so many more commands of heartbeats, each of which sends four or five.
void await_beats(const Running& origin, uint64_t commands) {
  const uint64_t before = beats(origin);
  await([&] { return beats(origin) >= before + commands; });
}

struct Refusal {
  const char* name;
  const char* begin;
  const char* end;
  OriginError error;
  const char* words;
};

constexpr Refusal kRefusals[] = {
    {"OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", OriginError::kOutOfMemory,
     "raise maxmemory"},
    {"READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", OriginError::kReadOnly,
     "give the address of the master"},
    {"NOREPLICAS", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0",
     OriginError::kWritesRefused, "min-replicas-to-write"},
};

TEST(RedisFaults, SaysThatAServerRefusesWritesAndWhyUntilItAcceptsThem) {
  for (const Refusal& refusal : kRefusals) {
    SCOPED_TRACE(refusal.name);
    const RealClock clock;
    const RedisServer server;
    const Running origin(clock, server.port());
    await([&] { return origin->reach() == Reach::kPrompt; });
    (void)server.ask(refusal.begin);
    // Nobody tells it anything: the heartbeat finds out.
    await([&] { return origin->reach() == Reach::kReadOnly; });
    EXPECT_FALSE(origin->metrics().writable);
    EXPECT_NE(origin->refusal().find(refusal.name), std::string::npos) << origin->refusal();
    EXPECT_NE(origin->refusal().find(refusal.words), std::string::npos) << origin->refusal();
    EXPECT_GE(origin->metrics().errors.total(refusal.error), 1u);
    EXPECT_TRUE(origin->metrics().closed);  // it answers: the breaker is no use
    (void)server.ask(refusal.end);
    await([&] { return origin->reach() == Reach::kPrompt; });
    EXPECT_TRUE(origin->metrics().writable);
    EXPECT_EQ(origin->refusal(), "");
    EXPECT_TRUE(origin.replay({acked("a", 1)}).ok());
  }
}

// A disk that fails: Redis refuses writes after it could not save.
TEST(RedisFaults, SaysThatAServerRefusesWritesBecauseItCannotSave) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  await([&] { return origin->reach() == Reach::kPrompt; });
  (void)server.ask("CONFIG SET save \"3600 1\"");
  const std::string answer = server.ask("CONFIG GET dir");
  const size_t at = answer.find('/');
  std::filesystem::remove_all(answer.substr(at, answer.find('\r', at) - at));
  (void)server.ask("BGSAVE");
  await([&] {
    return server.ask("INFO persistence").find("rdb_last_bgsave_status:err") != std::string::npos;
  });
  EXPECT_FALSE(origin.replay({acked("a", 1)}).ok());
  EXPECT_EQ(origin->reach(), Reach::kReadOnly);
  EXPECT_NE(origin->refusal().find("MISCONF"), std::string::npos) << origin->refusal();
}

TEST(RedisFaults, NoticesARefusalAtTheFirstWrite) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  await([&] { return origin->reach() == Reach::kPrompt; });
  (void)server.ask("CONFIG SET maxmemory 1");
  EXPECT_FALSE(origin.replay({acked("a", 1)}).ok());
  EXPECT_EQ(origin->reach(), Reach::kReadOnly);
}

TEST(RedisFaults, GoesOnByTheNodesItLastKnewWhileHeartbeatsAreRefused) {
  const RealClock clock;
  const RedisServer server;
  const Running one(clock, server.port(), {}, 1);
  const Running two(clock, server.port(), {}, 2);
  const Running three(clock, server.port(), {}, 3);
  const auto all_know = [&] {
    return one->live_nodes() == 3 && two->live_nodes() == 3 && three->live_nodes() == 3 &&
           one->rank() + two->rank() + three->rank() == 3;
  };
  await(all_know);
  (void)server.ask("CONFIG SET maxmemory 1");
  await_beats(one, 25);  // longer than an unheard node counts as alive
  await_beats(three, 5);
  EXPECT_TRUE(all_know());
  (void)server.ask("CONFIG SET maxmemory 0");
  await_beats(one, 5);
  await(all_know);
}

TEST(RedisFaults, DoesNotBelieveThatItIsAloneWhenRedisForgotTheOthers) {
  const RealClock clock;
  const RedisServer server;
  const Running one(clock, server.port(), {}, 1);
  const Running two(clock, server.port(), {}, 2);
  await([&] { return one->live_nodes() == 2 && two->live_nodes() == 2; });
  std::atomic<bool> ended{false};
  std::atomic<uint32_t> fewest{2};
  std::thread watcher([&] {
    while (!ended) fewest = std::min({fewest.load(), one->live_nodes(), two->live_nodes()});
  });
  for (int i = 0; i < 3; ++i) {
    (void)server.ask("DEL weir:nodes");
    await_beats(one, 10);
  }
  ended = true;
  watcher.join();
  EXPECT_EQ(fewest, 2u);
}

TEST(RedisFaults, LeavesNoCellWithoutExpiryWhenOneWriteOfManyIsRefused) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  const std::vector<CellReplay> cells = {acked("a", 1), acked("b", 1), acked("c", 1)};
  // All are refused, and their expiries with them.
  (void)server.ask("CONFIG SET maxmemory 1");
  EXPECT_FALSE(origin.replay(cells).ok());
  (void)server.ask("CONFIG SET maxmemory 0");
  // Now only the first is.
  (void)server.ask("ACL SETUSER default resetkeys ~weir:nodes ~" + redis_key({"b", 5}) + " ~" +
                   redis_key({"c", 5}));
  EXPECT_FALSE(origin.replay(cells).ok());
  for (const CellReplay& cell : {cells[1], cells[2]}) {
    EXPECT_TRUE(
        await([&] { return milliseconds_left(server, cell.cell) > 0; }, std::chrono::seconds(30)))
        << milliseconds_left(server, cell.cell);
  }
}

TEST(RedisFaults, SetsAnExpiryThatWasRefusedWhenWritesAreAcceptedAgain) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  await([&] { return origin->reach() == Reach::kPrompt; });
  (void)server.ask("ACL SETUSER default -pexpire");
  const CellReplay cell = acked("a", 1);
  (void)origin.replay({cell});
  ASSERT_EQ(milliseconds_left(server, cell.cell), -1);
  (void)server.ask("ACL SETUSER default +pexpire");
  EXPECT_TRUE(
      await([&] { return milliseconds_left(server, cell.cell) > 0; }, std::chrono::seconds(30)));
}

TEST(RedisFaults, TellsWhatThoseWhoLeftHadCountedToAServerThatForgotIt) {
  const RealClock clock;
  RedisServer server;
  const Running stays(clock, server.port(), {}, 1);
  const Running leaves(clock, server.port(), {}, 2);
  stays.await_ready();
  leaves.await_ready();
  ASSERT_TRUE(leaves.replay({acked("a", 90, kSibling)}).ok());
  EXPECT_EQ(*leaves.retire({{.cell = {"a", 5}, .writer = kSibling}}), 1u);
  // Whoever stays reads it along with what it tells.
  EXPECT_EQ(stays.replay({acked("a", 10)})->at(0).siblings, 90u);
  for (const bool restart : {false, true}) {
    if (restart) {
      server.restart();
    } else {
      (void)server.ask("FLUSHALL");
    }
    await([&] { return stays.replay({acked("a", 10)}).ok(); });
    const Running newcomer(clock, server.port(), {}, 3);
    newcomer.await_ready();
    constexpr Component kNewcomer{.incarnation = 0x123, .generation = 1};
    EXPECT_TRUE(await(
        [&] {
          const auto received = newcomer.read({asked("a", kNewcomer)});
          return received.ok() && received->at(0).siblings == 100;
        },
        std::chrono::seconds(10)));
    EXPECT_GT(milliseconds_left(server, {"a", 5}), 0);
  }
  // Two who remember tell the same: it is counted once.
  const Running second(clock, server.port(), {}, 4);
  second.await_ready();
  EXPECT_EQ(second.replay({acked("a", 1, kSibling)})->at(0).siblings, 100u);
  (void)server.ask("FLUSHALL");
  ASSERT_TRUE(second.replay({acked("a", 1, kSibling)}).ok());
  ASSERT_TRUE(stays.replay({acked("a", 10)}).ok());
  ASSERT_TRUE(second.read({asked("a")}).ok());
  EXPECT_TRUE(await([&] { return stays.read({asked("a")})->at(0).siblings == 91; },
                    std::chrono::seconds(10)));
}

TEST(RedisFaults, KeepsACellForItsTimeThoughItsClockIsAnHourSlow) {
  const RealClock slow(-kHour);
  const RedisServer server;
  const Running origin(slow, server.port());
  origin.await_ready();
  CellReplay cell = acked("a", 3);
  cell.expires_at -= kHour;  // by its own clock a minute from now
  ASSERT_TRUE(origin.replay({cell}).ok());
  EXPECT_GT(milliseconds_left(server, cell.cell), 60'000);
  EXPECT_EQ(origin.replay({cell})->at(0).mine, 3u);
}

TEST(RedisFaults, RemovesNoSiblingThoughItsClockIsAnHourFastOrSlow) {
  for (const Millis wrong_by : {kHour, -kHour}) {
    const RealClock right;
    const RealClock wrong(wrong_by);
    const RedisServer server;
    const Running sibling(right, server.port(), {}, 1);
    await([&] { return number_in(server.ask("ZCARD weir:nodes")) == 1; });
    const uint64_t epoch = sibling->epoch();
    const Running origin(wrong, server.port(), {}, 2);
    await([&] { return origin->live_nodes() == 2 && sibling->live_nodes() == 2; });
    await_beats(sibling, 10);
    EXPECT_EQ(origin->live_nodes(), 2u);
    EXPECT_EQ(sibling->live_nodes(), 2u);
    EXPECT_EQ(sibling->epoch(), epoch);  // it was not forgotten meanwhile
  }
}

}  // namespace
}  // namespace weir::origins
