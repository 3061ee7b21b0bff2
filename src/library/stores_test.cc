// The factories of stores: their options, and stores that a limiter can use at once.

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <future>
#include <thread>

#include "platform/own_thread.h"
#include "weir/mysql.h"
#include "weir/redis.h"
#include "weir/sqlite.h"
#include "weir/weir.h"

namespace weir {
namespace {

template <typename T>
std::string text_of(const Result<T>& result) {
  if (result) return "";
  return result.error().field + "|" + result.error().detail + "|" + result.error().fix;
}

TEST(RedisOrigin, NamesTheOptionItsValueAndItsRange) {
  const auto error = [](const RedisOptions& options) { return text_of(redis_origin(options)); };
  EXPECT_EQ(error({.host = ""}), "host|host has 0 bytes|choose a host of 1 to 253 bytes");
  EXPECT_EQ(error({.port = 0}), "port|port is 0|choose a port from 1 to 65535");
  EXPECT_EQ(error({.database = -1}), "database|database is -1|choose a database from 0 to 1000000");
  EXPECT_EQ(error({.connect_wait = Millis(-1)}),
            "connect_wait|connect_wait is -1|choose a connect_wait from 0 to 60000");
  EXPECT_EQ(error({.read_deadline = Millis(0)}),
            "read_deadline|read_deadline is 0|choose a read_deadline from 1 to 10000");
  EXPECT_EQ(error({.user = "app"}),
            "password|password is empty, but a user is given|give the password of the user, or "
            "leave the user out");
}

TEST(RedisOrigin, KeepsThePasswordOutOfErrors) {
  const auto error = text_of(redis_origin({.password = std::string(513, 's')}));
  EXPECT_EQ(error, "password|password has 513 bytes|choose a password of 0 to 512 bytes");
  EXPECT_EQ(text_of(parse_redis_url("redis://user:secret@host:no-port")).find("secret"),
            std::string::npos);
}

TEST(RedisOrigin, ReadsItsOptionsFromAUrl) {
  const auto options = parse_redis_url("redis://app:p%40ss@cache:6400/3");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->host, "cache");
  EXPECT_EQ(options->port, 6400);
  EXPECT_EQ(options->user, "app");
  EXPECT_EQ(options->password, "p@ss");
  EXPECT_EQ(options->database, 3);
}

TEST(RedisOrigin, DoesNotStopALimiterIfTheServerIsUnreachable) {
  const auto origin = redis_origin({.port = 1, .connect_wait = Millis(0)});
  ASSERT_TRUE(origin.ok());
  Limiter limiter = Limiter::create(system_clock(), {.origin = *origin, .capacity = 64}).value();
  const auto verdict = limiter.check(
      {.ns = "api", .identifier = "alice", .limit = 3, .duration = std::chrono::minutes(1)});
  EXPECT_TRUE(verdict->admitted());
  EXPECT_EQ(verdict->basis, Basis::kDegraded);
}

TEST(MysqlLedger, NamesTheOptionItsValueAndItsRange) {
  const auto error = [](const MysqlOptions& options) { return text_of(mysql_ledger(options)); };
  EXPECT_EQ(error({.database = "d"}), "host|host has 0 bytes|choose a host of 1 to 253 bytes");
  EXPECT_EQ(error({.host = "h"}),
            "database|database has 0 bytes|choose a database of 1 to 64 bytes");
  EXPECT_EQ(error({.host = "h", .port = 0, .database = "d"}),
            "port|port is 0|choose a port from 1 to 65535");
  EXPECT_EQ(error({.host = "h", .user = std::string(129, 'u'), .database = "d"}),
            "user|user has 129 bytes: \"" + std::string(64, 'u') +
                "...\"|choose a user of 0 to 128 bytes");
  EXPECT_EQ(error({.host = "h", .password = std::string(513, 's'), .database = "d"}),
            "password|password has 513 bytes|choose a password of 0 to 512 bytes");
  EXPECT_EQ(error({.host = "h", .database = "d", .tls = static_cast<MysqlTls>(4)}),
            "tls|tls is 4|choose a tls from 0 to 3");
  EXPECT_NE(text_of(create_mysql_tables({})), "");
}

TEST(MysqlLedger, ReadsItsOptionsFromAUrl) {
  const auto options = parse_mysql_url("mysql://app:secret@db:3307/limits?tls=required");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->host, "db");
  EXPECT_EQ(options->port, 3307);
  EXPECT_EQ(options->database, "limits");
  EXPECT_EQ(options->tls, MysqlTls::kRequired);
  EXPECT_EQ(text_of(parse_mysql_url("sqlite:/tmp/file")),
            "url|url does not start with mysql:// or mariadb://|choose "
            "mysql://[user[:password]@]host[:port]/database");
}

TEST(SqliteLedger, NamesTheOptionItsValueAndItsRange) {
  EXPECT_EQ(text_of(sqlite_ledger({})), "path|path has 0 bytes|choose a path of 1 to 4096 bytes");
}

TEST(SqliteLedger, SharesCountsBetweenRegions) {
  const Clock& clock = system_clock();
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("weir-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  {
    const auto limiter = [&](const std::string& region) {
      auto ledger = sqlite_ledger({.path = folder / "ledger.db"});
      return Limiter::create(clock, {.ledger = *ledger, .region = region, .capacity = 1024})
          .value();
    };
    Limiter east = limiter("east");
    Limiter west = limiter("west");
    Runner runs_east(clock, east);
    Runner runs_west(clock, west);
    runs_east.start();
    runs_west.start();
    while (west.sync_stats().regions < 2) std::this_thread::yield();
  }
  std::filesystem::remove_all(folder);
}

struct StoreBase {
  virtual ~StoreBase() = default;
};

// Reports the thread that destroys it.
struct EndingStore final : StoreBase {
  explicit EndingStore(std::promise<bool>& ended) : on_own_thread(ended) {}
  ~EndingStore() override { on_own_thread.set_value(platform::on_own_thread()); }
  std::promise<bool>& on_own_thread;
};

TEST(StoreLifetime, EndsOnAnotherThreadIfItsOwnThreadReleasesIt) {
  std::promise<bool> on_own_thread;
  ThreadExecutor thread(system_clock());
  thread.start();
  thread.post([last = platform::destroyed_by_others<StoreBase>(
                   std::make_shared<EndingStore>(on_own_thread))] {});
  EXPECT_FALSE(on_own_thread.get_future().get());
}

// An origin that owns its executor may be released by one of its own replies, if the limiter is
// destroyed meanwhile.
TEST(ThreadExecutorLifetime, EndsInATaskOfItsOwn) {
  std::promise<void> owned;
  std::promise<void> ended;
  std::shared_ptr<int> waiting = std::make_shared<int>(0);
  std::weak_ptr<int> dropped = waiting;
  auto executor = std::make_unique<ThreadExecutor>(system_clock());
  ThreadExecutor& thread = *executor;
  thread.post([&, last = std::move(executor)]() mutable {
    owned.get_future().get();
    last.reset();
    EXPECT_TRUE(dropped.expired());
    ended.set_value();
  });
  thread.post([waiting] { ADD_FAILURE() << "its owner is gone"; });
  waiting.reset();
  thread.start();
  owned.set_value();
  ended.get_future().get();
}

}  // namespace
}  // namespace weir
