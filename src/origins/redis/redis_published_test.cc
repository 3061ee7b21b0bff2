// Published counts in a real redis-server.

#include "origins/redis/running_redis_test.h"

namespace weir::origins {
namespace {

TEST(RedisPublished, SetsTheExpiryOfAPublishedCount) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  const auto time_left = [&](const CellPublished& published) {
    EXPECT_EQ(origin.read({read_of(published.cell.tuple)})->at(0).published, published.total);
    // The first reply has sent the repairs; this reply comes after them.
    EXPECT_TRUE(origin.read({read_of(published.cell.tuple)}).ok());
    return std::stoll(server.ask("PTTL " + redis_key(published.cell)).substr(1));
  };
  const CellPublished published = published_of("a", 3);
  origin->note_published({published, published_of("b", 4)});
  EXPECT_GT(time_left(published), 60'000);
  EXPECT_GT(time_left(published_of("b", 4)), 60'000);
  EXPECT_EQ(origin->metrics().commands.total(OriginCommand::kPublish), 2u);
  EXPECT_EQ(origin->metrics().commands.total(OriginCommand::kTell), 0u);
  (void)server.ask("FLUSHALL");  // keeps connections open
  origin->note_published({published});
  EXPECT_GT(time_left(published), 60'000);
}

TEST(RedisPublished, IgnoresAPublishedValueThatIsNotACount) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  ASSERT_TRUE(origin.replay({replay_of("a", 3)}).ok());
  (void)server.ask("HSET " + redis_key({"a", 5}) + " published -1");
  const auto received = origin.read({read_of("a")});
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(received->at(0).published, 0u);
  EXPECT_EQ(received->at(0).mine, 3u);
  EXPECT_EQ(origin->metrics().invalid, 1u);
}

TEST(RedisPublished, CountsRefusedPublishedCounts) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  (void)server.ask("SET " + redis_key({"a", 5}) + " x");
  for (int i = 0; i < 30; ++i) origin->note_published({published_of("a", 3), published_of("b", 4)});
  EXPECT_EQ(origin.read({read_of("b")})->at(0).published, 4u);
  EXPECT_EQ(origin->metrics().errors.total(OriginError::kWrongType), 30u);
  EXPECT_TRUE(origin->metrics().closed);  // the error concerns one cell only
  (void)server.ask("CONFIG SET maxmemory 1");
  origin->note_published({published_of("b", 5), published_of("c", 6)});
  EXPECT_EQ(origin.read({read_of("b")})->at(0).published, 4u);
  EXPECT_EQ(origin->metrics().errors.total(OriginError::kOutOfMemory), 1u);
}

TEST(RedisPublished, DropsPublishedCountsWithoutAServer) {
  const RealClock clock;
  RedisServer server;
  server.kill();
  const RunningOrigin origin(clock, server.port());
  origin->note_published({published_of("a", 3)});
  EXPECT_FALSE(origin.read({read_of("a")}).ok());
  EXPECT_EQ(origin->metrics().commands.total(OriginCommand::kPublish), 0u);
  server.restart();
  origin.await_ready();
  EXPECT_EQ(origin.read({read_of("a")})->at(0).published, 0u);
}

}  // namespace
}  // namespace weir::origins
