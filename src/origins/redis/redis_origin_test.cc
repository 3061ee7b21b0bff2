// The origin's contract against a real redis-server, and what only a real one can do.

#include "origins/redis/redis_origin.h"

#include <atomic>

#include "origins/redis/running_redis_test.h"
#include "tests/contracts/origin_contract.h"

namespace weir {
namespace contracts {

using origins::asked;
using origins::RealClock;
using origins::Running;
using servers::RedisServer;

struct InRedis {
  using Clock = RealClock;
  static constexpr bool kTimeIsReal = true;
  explicit InRedis(const Clock& clock) : running(clock, server.port()) { running.await_ready(); }
  [[nodiscard]] std::shared_ptr<RegionalOrigin> make() const { return running.origin(); }
  // Answers come in order: once this one is there, all before it are.
  void settle() const { (void)running.read({asked("settle")}); }
  RedisServer server;
  Running running;
};

INSTANTIATE_TYPED_TEST_SUITE_P(RedisOrigin, OriginContract, InRedis);

}  // namespace contracts

namespace origins {
namespace {

TEST(RedisOrigin, LetsRedisForgetACellAfterItsTime) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  const CellReplay cell = acked("a", 3);
  ASSERT_TRUE(origin.replay({cell}).ok());
  const std::string left = server.ask("PTTL " + redis_key(cell.cell));
  const int64_t ms = std::stoll(left.substr(1));
  EXPECT_GT(ms, 60'000);
  EXPECT_LE(ms, 65'000);
}

TEST(RedisOrigin, IgnoresWhatIsNoCountAndSaturates) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  ASSERT_TRUE(origin.replay({acked("a", 3), acked("a", 4, kSibling)}).ok());
  const std::string key = redis_key({"a", 5});
  for (const char* value :
       {"-1", "1.5", "many", "\"\"", "99999999999999999999", "20000000000000"}) {
    (void)server.ask("HSET " + key + " f" + std::to_string(std::hash<std::string>()(value)) + " " +
                     value);
  }
  const auto received = origin.read({asked("a")});
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(received->at(0).mine, 3u);
  EXPECT_EQ(received->at(0).siblings, 4u);
  EXPECT_EQ(origin->metrics().invalid, 6u);
}

TEST(RedisOrigin, FailsAtOnceWhileNobodyIsThereAndRecoversByItself) {
  const RealClock clock;
  RedisServer server;
  server.kill();
  const Running origin(clock, server.port());
  EXPECT_FALSE(origin.read({asked("a")}).ok());
  EXPECT_FALSE(origin->trouble().empty());
  server.restart();
  origin.await_ready();
  EXPECT_TRUE(origin.replay({acked("a", 1)}).ok());
  EXPECT_EQ(origin->trouble(), "");
}

TEST(RedisOrigin, FailsWhatWasUnderWayWhenTheServerDiesAndForgetsNothingOfItsOwn) {
  const RealClock clock;
  RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  ASSERT_TRUE(origin.replay({acked("a", 3)}).ok());
  // Silent first, so that the answer does not come before the end does.
  server.stop();
  std::atomic<int> answered{0};
  std::atomic<int> failed{0};
  for (int i = 0; i < 3; ++i) {
    origin->read({asked("a")}, [&](const Result<std::vector<CellTotals>>& totals) {
      ++(totals ? answered : failed);
    });
  }
  server.restart();
  await([&] { return answered + failed == 3; });
  EXPECT_EQ(answered, 0);
  await([&] { return origin.read({asked("a")}).ok(); });
  // Empty now, and says so: the one who told it sees that it must tell again.
  EXPECT_EQ(origin.read({asked("a")})->at(0).mine, 0u);
  EXPECT_EQ(origin.replay({acked("a", 3)})->at(0).mine, 3u);
}

TEST(RedisOrigin, TellsAnExpiryAnewToAServerThatForgotIt) {
  const RealClock clock;
  RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  const CellReplay cell = acked("a", 3);
  ASSERT_TRUE(origin.replay({cell}).ok());
  server.restart();
  await([&] { return origin.replay({cell}).ok(); });
  await([&] {
    return origin.replay({cell}).ok() &&
           std::stoll(server.ask("PTTL " + redis_key(cell.cell)).substr(1)) > 0;
  });
}

TEST(RedisOrigin, NoticesThatItWasFlushed) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  await([&] { return server.ask("ZCARD weir:nodes") == ":1\r\n"; });
  const uint64_t before = origin->epoch();
  (void)server.ask("FLUSHALL");
  await([&] { return origin->epoch() != before; });
}

TEST(RedisOrigin, TellsAnExpiryAnewWhenACellIsGoneAndTheConnectionIsNot) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  const CellReplay cell = acked("a", 3);
  ASSERT_TRUE(origin.replay({cell}).ok());
  (void)server.ask("FLUSHALL");
  ASSERT_TRUE(origin.replay({cell}).ok());
  ASSERT_TRUE(origin.read({asked("a")}).ok());  // answers come in order
  EXPECT_GT(std::stoll(server.ask("PTTL " + redis_key(cell.cell)).substr(1)), 0);
}

TEST(RedisOrigin, EndsTheConnectionItLeftBeforeItWritesThroughAnother) {
  const RealClock clock;
  RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  EXPECT_EQ(server.ask("INFO commandstats").find("client|kill"), std::string::npos);
  server.stop();
  EXPECT_FALSE(origin.read({asked("a")}).ok());
  server.go_on();
  await([&] { return origin.read({asked("a")}).ok(); });
  EXPECT_NE(server.ask("INFO commandstats").find("client|kill:calls="), std::string::npos);
}

TEST(RedisOrigin, EndsNobodyElseWhoHasTheNumberOfItsOldConnection) {
  const RealClock clock;
  RedisServer server;
  const Running one(clock, server.port(), {}, 1);
  one.await_ready();
  const Running two(clock, server.port(), {}, 2);
  two.await_ready();
  const auto connections = [](const Running& running) -> uint64_t {
    return running->metrics().connections;
  };
  for (int i = 0; i < 5; ++i) {
    const uint64_t before[] = {connections(one), connections(two)};
    server.restart();  // its numbers begin anew, and the two meet it in any order
    await([&] { return connections(one) != before[0] && connections(two) != before[1]; });
    const uint64_t after[] = {connections(one), connections(two)};
    ASSERT_TRUE(one.read({asked("a")}).ok() && two.read({asked("a")}).ok());
    EXPECT_EQ(connections(one), after[0]);
    EXPECT_EQ(connections(two), after[1]);
  }
}

TEST(RedisOrigin, DoesWithoutWhereItMayNotEndItsOldConnection) {
  const RealClock clock;
  const RedisServer server;
  (void)server.ask("ACL SETUSER default -client");
  const Running origin(clock, server.port());
  origin.await_ready();
  EXPECT_TRUE(origin.replay({acked("a", 1)}).ok());
}

TEST(RedisOrigin, GivesUpOnAConnectionThatIsStuckAndGoesOnWithAnother) {
  const RealClock clock;
  RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  server.stop();
  EXPECT_FALSE(origin.read({asked("a")}).ok());
  server.go_on();
  await([&] { return origin.read({asked("a")}).ok(); });
}

TEST(RedisOrigin, StopsAskingAServerThatMostlyFailsAndAsksAgainWhenAProbeSucceeds) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  // A replica without its master answers every call with an error.
  (void)server.ask("CONFIG SET replica-serve-stale-data no");
  (void)server.ask("REPLICAOF 127.0.0.1 1");
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(origin.read({asked("a")}).ok());
  EXPECT_FALSE(origin->metrics().closed);
  EXPECT_EQ(origin->reach(), Reach::kNone);
  EXPECT_FALSE(origin.read({asked("b")}).ok());
  EXPECT_GT(origin->metrics().errors.total(OriginError::kCircuitOpen), 0u);
  EXPECT_GE(origin->metrics().errors.total(OriginError::kLoading), 20u);
  (void)server.ask("REPLICAOF NO ONE");
  await([&] { return origin->reach() == Reach::kPrompt; });
  EXPECT_TRUE(origin.read({asked("b")}).ok());
}

TEST(RedisOrigin, LosesNoOtherCellToOneThatIsSomethingElse) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  (void)server.ask("SET " + redis_key({"a", 5}) + " x");
  const auto received = origin.replay({acked("b", 1), acked("a", 2), acked("c", 3)});
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(origin.read({asked("c"), asked("a"), asked("b")})->at(0).mine, 3u);
  EXPECT_EQ(origin->metrics().errors.total(OriginError::kWrongType), 2u);
  EXPECT_EQ(origin.read({asked("b")})->at(0).mine, 1u);
}

TEST(RedisOrigin, GoesOnReadingFromAServerThatIsFull) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  ASSERT_TRUE(origin.replay({acked("a", 1)}).ok());
  (void)server.ask("CONFIG SET maxmemory 1");
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(origin.replay({acked("a", 2)}).ok());
  EXPECT_EQ(origin.read({asked("a")})->at(0).mine, 1u);
  EXPECT_EQ(origin->metrics().errors.total(OriginError::kOutOfMemory), 30u);
  EXPECT_TRUE(origin->metrics().closed);
  (void)server.ask("CONFIG SET maxmemory 0");
  EXPECT_EQ(origin.replay({acked("a", 2)})->at(0).mine, 2u);
}

TEST(RedisOrigin, RetiresComponentsThoughTheServerForgotTheScript) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  ASSERT_TRUE(origin.replay({acked("a", 3), acked("b", 4), acked("a", 5, kSibling)}).ok());
  EXPECT_EQ(*origin.retire({{.cell = {"a", 5}, .writer = kNode}}), 1u);
  (void)server.ask("SCRIPT FLUSH");
  EXPECT_EQ(*origin.retire({{.cell = {"a", 5}, .writer = kNode},
                            {.cell = {"a", 5}, .writer = kSibling},
                            {.cell = {"b", 5}, .writer = kNode}}),
            2u);
  EXPECT_EQ(origin->metrics().errors.total(OriginError::kNoScript), 1u);
  EXPECT_EQ(origin.read({asked("a")})->at(0).siblings, 8u);
  EXPECT_EQ(server.ask("HLEN " + redis_key({"a", 5})), ":1\r\n");
}

TEST(RedisOrigin, LosesNothingOfAComponentThatCannotBeRetired) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  ASSERT_TRUE(origin.replay({acked("a", 3)}).ok());
  (void)server.ask("HSET " + redis_key({"a", 5}) + " gone nonsense");
  EXPECT_FALSE(origin.retire({{.cell = {"a", 5}, .writer = kNode}}).ok());
  EXPECT_EQ(origin.read({asked("a")})->at(0).mine, 3u);
}

TEST(RedisOrigin, LetsRedisForgetWordOfACellNobodyAcked) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  const auto time_left = [&](const CellPublished& word) {
    EXPECT_EQ(origin.read({asked(word.cell.tuple)})->at(0).published, word.total);
    // What follows from an answer is sent by now, and one that is asked later comes later.
    EXPECT_TRUE(origin.read({asked(word.cell.tuple)}).ok());
    return std::stoll(server.ask("PTTL " + redis_key(word.cell)).substr(1));
  };
  const CellPublished word = word_of("a", 3);
  origin->note_published({word, word_of("b", 4)});
  EXPECT_GT(time_left(word), 60'000);
  EXPECT_GT(time_left(word_of("b", 4)), 60'000);
  EXPECT_EQ(origin->metrics().commands.total(OriginCommand::kPublish), 2u);
  EXPECT_EQ(origin->metrics().commands.total(OriginCommand::kReplay), 0u);
  (void)server.ask("FLUSHALL");  // which breaks no connection
  origin->note_published({word});
  EXPECT_GT(time_left(word), 60'000);
}

TEST(RedisOrigin, IgnoresWordThatIsNoCount) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  ASSERT_TRUE(origin.replay({acked("a", 3)}).ok());
  (void)server.ask("HSET " + redis_key({"a", 5}) + " published -1");
  const auto received = origin.read({asked("a")});
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(received->at(0).published, 0u);
  EXPECT_EQ(received->at(0).mine, 3u);
  EXPECT_EQ(origin->metrics().invalid, 1u);
}

TEST(RedisOrigin, CountsWordThatRedisDoesNotTake) {
  const RealClock clock;
  const RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  (void)server.ask("SET " + redis_key({"a", 5}) + " x");
  for (int i = 0; i < 30; ++i) origin->note_published({word_of("a", 3), word_of("b", 4)});
  EXPECT_EQ(origin.read({asked("b")})->at(0).published, 4u);
  EXPECT_EQ(origin->metrics().errors.total(OriginError::kWrongType), 30u);
  EXPECT_TRUE(origin->metrics().closed);  // it is one cell only
  (void)server.ask("CONFIG SET maxmemory 1");
  origin->note_published({word_of("b", 5), word_of("c", 6)});
  EXPECT_EQ(origin.read({asked("b")})->at(0).published, 4u);
  EXPECT_EQ(origin->metrics().errors.total(OriginError::kOutOfMemory), 1u);
}

TEST(RedisOrigin, LeavesNoWordWhileNobodyIsThere) {
  const RealClock clock;
  RedisServer server;
  server.kill();
  const Running origin(clock, server.port());
  origin->note_published({word_of("a", 3)});
  EXPECT_FALSE(origin.read({asked("a")}).ok());
  EXPECT_EQ(origin->metrics().commands.total(OriginCommand::kPublish), 0u);
  server.restart();
  origin.await_ready();
  EXPECT_EQ(origin.read({asked("a")})->at(0).published, 0u);
}

TEST(RedisOrigin, LetsNobodyWaitForAServerThatDoesNotAnswer) {
  const RealClock clock;
  RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  await([&] { return origin->reach() == Reach::kPrompt; });
  server.stop();
  std::atomic<bool> answered{false};
  origin->read({asked("a")}, [&](const auto&) { answered = true; });
  await([&] { return origin->reach() == Reach::kSlow; });
  EXPECT_FALSE(answered);  // long before the connection is given up
  server.go_on();
  await([&] { return origin->reach() == Reach::kPrompt && answered; });
}

TEST(RedisOrigin, SaysWhyItIsNotLetIn) {
  const RealClock clock;
  const RedisServer server({"--requirepass", "secret"});
  const Running without(clock, server.port());
  await([&] { return without->trouble().find("NOAUTH") != std::string::npos; });
  const Running wrong(clock, server.port(), {.password = "guess"});
  await([&] { return wrong->trouble().find("WRONGPASS") != std::string::npos; });
  const Running right(clock, server.port(), {.password = "secret"});
  right.await_ready();
  EXPECT_TRUE(right.replay({acked("a", 1)}).ok());
  const Running named(clock, server.port(), {.user = "default", .password = "secret"});
  named.await_ready();
}

TEST(RedisOrigin, KeepsDatabasesApart) {
  const RealClock clock;
  const RedisServer server;
  const Running one(clock, server.port(), {.database = 1});
  const Running two(clock, server.port(), {.database = 2});
  one.await_ready();
  two.await_ready();
  ASSERT_TRUE(one.replay({acked("a", 3)}).ok());
  EXPECT_EQ(two.read({asked("a")})->at(0).mine, 0u);
}

TEST(RedisOrigin, KnowsHowManyShareIt) {
  const RealClock clock;
  const RedisServer server;
  const Running one(clock, server.port(), {}, 1);
  await([&] {
    return one->live_nodes() == 1 && one->metrics().commands.total(OriginCommand::kNodes) >= 3;
  });
  {
    const Running two(clock, server.port(), {}, 2);
    await([&] { return one->live_nodes() == 2 && two->live_nodes() == 2; });
    await([&] { return one->rank() == 0 && two->rank() == 1; });
  }
  await([&] { return one->live_nodes() == 1; });
  EXPECT_EQ(server.ask("ZCARD weir:nodes"), ":1\r\n");  // it said goodbye
}

TEST(RedisOrigin, LeavesAServerThatIsAMasterNoMore) {
  const RealClock clock;
  RedisServer server;
  const Running origin(clock, server.port());
  origin.await_ready();
  (void)server.ask("REPLICAOF 127.0.0.1 1");
  await([&] {
    (void)origin.replay({acked("a", 1)});
    return origin->trouble().find("readonly") != std::string::npos;
  });
  (void)server.ask("REPLICAOF NO ONE");
  await([&] { return origin.replay({acked("a", 1)}).ok(); });
}

}  // namespace
}  // namespace origins
}  // namespace weir
