// The connections of the Redis origin: subscriptions, versions of the data, and permissions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <regex>
#include <sstream>

#include "origins/redis/redis_tuples.h"
#include "origins/redis/running_redis_test.h"
#include "tests/contracts/bridge_contract_fixture.h"

namespace weir::origins {
namespace {

using contracts::Inbox;

TEST(RedisSubscription, ReceivesMessagesAgainAfterItsConnectionWasKilled) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  Inbox inbox;
  const uint64_t before = origin->epoch();
  const Subscription subscription = origin->subscribe(inbox.handler());
  await([&] { return subscribers(server) == 1 && origin->epoch() != before; });
  origin->notify("one");
  await([&] { return inbox.size() == 1; });
  const uint64_t epoch = origin->epoch();
  const uint64_t connections = origin->metrics().connections;
  EXPECT_EQ(server.ask("CLIENT KILL TYPE pubsub"), ":1\r\n");
  await([&] { return subscribers(server) == 1 && origin->epoch() != epoch; });
  origin->notify("two");
  await([&] { return inbox.size() == 2; });
  EXPECT_EQ(inbox.messages()[1].body, "two");
  EXPECT_EQ(inbox.messages()[1].number, 2u);
  EXPECT_EQ(origin->metrics().connections, connections);  // of the calls
}

TEST(RedisSubscription, ReplacesAConnectionThatDoesNotAnswer) {
  const RealClock clock;
  RedisServer server;
  const RunningOrigin origin(clock, server.port(), {}, 1, kImpatient);
  origin.await_ready();
  Inbox inbox;
  const Subscription subscription = origin->subscribe(inbox.handler());
  await([&] { return subscribers(server) == 1; });
  const uint64_t timeouts = origin->metrics().errors.total(OriginError::kTimeout);
  server.pause();
  // Of both connections.
  await([&] { return origin->metrics().errors.total(OriginError::kTimeout) >= timeouts + 2; });
  server.resume();
  await([&] {
    origin->notify("x");
    return inbox.size() > 0;
  });
}

TEST(RedisSubscription, NumbersMessagesFromOneAfterARestart) {
  const RealClock clock;
  RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  Inbox inbox;
  const Subscription subscription = origin->subscribe(inbox.handler());
  await([&] { return subscribers(server) == 1; });
  origin->notify("one");
  origin->notify("two");
  await([&] { return inbox.size() == 2; });
  server.restart();
  await([&] { return subscribers(server) == 1 && origin.read({read_of("a")}).ok(); });
  origin->notify("three");
  await([&] { return inbox.size() == 3; });
  EXPECT_EQ(inbox.messages()[2].number, 1u);
}

TEST(RedisSubscription, ClosesItsConnectionWithItsLastHandler) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  Inbox inbox;
  Subscription first = origin->subscribe(inbox.handler());
  Subscription second = origin->subscribe(inbox.handler());
  await([&] { return subscribers(server) == 1; });
  first = nullptr;
  origin->notify("x");
  await([&] { return inbox.size() == 1; });
  second = nullptr;
  await([&] { return subscribers(server) == 0; });
  first = origin->subscribe(inbox.handler());
  await([&] { return subscribers(server) == 1; });
  origin->notify("x");
  await([&] { return inbox.size() == 2; });
}

TEST(RedisSubscription, SeparatesTheMessagesOfDatabases) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin one(clock, server.port(), {.database = 1}, 1);
  const RunningOrigin two(clock, server.port(), {.database = 2}, 2);
  one.await_ready();
  two.await_ready();
  Inbox first, second;
  const Subscription subscriptions[] = {one->subscribe(first.handler()),
                                        two->subscribe(second.handler())};
  await([&] { return subscribers(server, 1) == 1 && subscribers(server, 2) == 1; });
  one->notify("for one");
  two->notify("for two");
  await([&] { return first.size() == 1 && second.size() == 1; });
  EXPECT_EQ(first.messages()[0].body, "for one");
  EXPECT_EQ(second.messages()[0].body, "for two");
}

TEST(RedisSubscription, ReceivesLongMessagesInOrder) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  Inbox inbox;
  const Subscription subscription = origin->subscribe(inbox.handler());
  await([&] { return subscribers(server) == 1; });
  for (char body = 'a'; body < 'f'; ++body) origin->notify(std::string(3'000'000, body));
  for (int i = 0; i < 100; ++i) origin->notify("short");
  await([&] { return inbox.size() == 105; });
  const auto messages = inbox.messages();
  for (size_t i = 0; i < messages.size(); ++i) EXPECT_EQ(messages[i].number, i + 1);
  EXPECT_EQ(messages[4].body, std::string(3'000'000, 'e'));
}

TEST(RedisVersion, StoresItsVersionAtTheServer) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  const std::string stored = "$1\r\n" + std::string(kOriginVersion) + "\r\n";
  EXPECT_EQ(server.ask("GET weir:version"), stored);
  await([&] { return server.ask("ZCARD weir:nodes") == ":1\r\n"; });
  (void)server.ask("FLUSHALL");
  await([&] { return server.ask("GET weir:version") == stored; });
}

TEST(RedisVersion, RefusesDataOfAnotherVersion) {
  const RealClock clock;
  const RedisServer server;
  (void)server.ask("SET weir:version 77");
  const RunningOrigin origin(clock, server.port());
  await([&] { return origin->last_error().find("version 77") != std::string::npos; });
  EXPECT_NE(origin->last_error().find("delete the keys weir:*"), std::string::npos);
  EXPECT_EQ(origin->reach(), Reach::kNone);
  EXPECT_FALSE(origin.read({read_of("a")}).ok());
  EXPECT_GE(origin->metrics().errors.total(OriginError::kVersion), 1u);
  EXPECT_EQ(server.ask("KEYS *"), "*1\r\n$12\r\nweir:version\r\n");
  (void)server.ask("DEL weir:version");
  origin.await_ready();
  EXPECT_TRUE(origin.replay({replay_of("a", 1)}).ok());
}

// A process that shares its counts with other regions.
class RunningRegion {
 public:
  RunningRegion(const Clock& clock, uint16_t port, std::string region, uint64_t seed)
      : origin_(clock, RedisAddress{.port = port}, seed, kPatient, std::move(region)) {
    origin_.start();
  }
  ~RunningRegion() { origin_.stop(); }
  RedisOrigin* operator->() { return &origin_; }
  void await_ready() const {
    await([this] { return origin_.metrics().ready.load(); });
  }

 private:
  RedisOrigin origin_;
};

TEST(RedisRegion, StoresItsNameAtTheServer) {
  const RealClock clock;
  const RedisServer server;
  RunningRegion east(clock, server.port(), "east", 1);
  east.await_ready();
  EXPECT_EQ(server.ask("GET weir:region"), "$4\r\neast\r\n");
  RunningRegion second(clock, server.port(), "east", 2);
  second.await_ready();
  await([&] { return server.ask("ZCARD weir:nodes") == ":2\r\n"; });
  (void)server.ask("FLUSHALL");
  await([&] { return server.ask("GET weir:region") == "$4\r\neast\r\n"; });
}

// Its own counts and the rows that it had published under the former name would both count: an
// identifier with 50 of 100 used had 0 left in all regions.
TEST(RedisRegion, ARenamedRegionDoesNotUseTheCountsOfTheFormerName) {
  const RealClock clock;
  const RedisServer server;
  {
    RunningRegion east(clock, server.port(), "east", 1);
    east.await_ready();
  }
  RunningRegion renamed(clock, server.port(), "eu-east", 2);
  await([&] { return renamed->last_error().find("'east'") != std::string::npos; });
  EXPECT_EQ(renamed->last_error(),
            "region is 'eu-east', and it has the counts of region 'east': choose that region, or "
            "another server or database; to rename the region, stop all its processes and delete "
            "the keys weir:*");
  EXPECT_EQ(renamed->reach(), Reach::kNone);
  EXPECT_GE(renamed->metrics().errors.total(OriginError::kRegion), 1u);
  EXPECT_EQ(server.ask("GET weir:region"), "$4\r\neast\r\n");
  // As the error says.
  (void)server.ask("FLUSHALL");
  renamed.await_ready();
  EXPECT_EQ(server.ask("GET weir:region"), "$7\r\neu-east\r\n");
}

TEST(RedisRegion, IsNotStoredByAProcessThatSharesWithNoOtherRegion) {
  const RealClock clock;
  const RedisServer server;
  RunningRegion east(clock, server.port(), "east", 1);
  east.await_ready();
  const RunningOrigin alone(clock, server.port(), {}, 2);
  alone.await_ready();
  const RedisServer other;
  const RunningOrigin alone_there(clock, other.port(), {}, 3);
  alone_there.await_ready();
  EXPECT_EQ(other.ask("EXISTS weir:region"), ":0\r\n");
}

// The permissions in docs/origin.md.
std::string documented_permissions() {
  std::ifstream file(std::string(WEIR_SOURCE_DIR) + "/docs/origin.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str();
  std::smatch found;
  if (!std::regex_search(text, found, std::regex("`(~weir:\\* [^`]*)`"))) return {};
  return std::regex_replace(found[1].str(), std::regex("\\s+"), " ");
}

// Makes every call that a server with a ledger makes, and returns the errors.
std::vector<std::string> use_everything(const RunningOrigin& origin) {
  std::vector<std::string> errors;
  const auto note = [&errors](const auto& result) {
    if (!result) errors.push_back(result.error().detail);
  };
  CellReplay cell = replay_of("a", 3);
  cell.limit_seen = 10;
  cell.due = Due::kNow;
  note(origin.replay({cell}));
  cell.due = Due::kWindowEnd;
  cell.writer = kSibling;
  note(origin.replay({cell}));
  note(origin.read({{.cell = {"a", 5}, .reader = kNode, .with_regions = true}}));
  note(origin.retire({{.cell = {"a", 5}, .writer = kSibling}}));
  note(origin.acquire("one", kLease));
  note(origin.save("one", "state"));
  const auto due = origin.read_due(in(600'000));
  note(due);
  if (due) {
    origin->remove_due(*due);
    origin->add_due(*due);
  }
  note(origin.update_tuples({{.tuple = "a",
                              .counts = {{.region = "eu", .sequence = 5, .count = 1}},
                              .kept_until = cell.expires_at,
                              .sequences = {5},
                              .floors = {{.sequence = 5,
                                          .total = 100,
                                          .expires_at = cell.expires_at,
                                          .writers = {kNode.incarnation}}}}}));
  note(origin.read_tuples({{.tuple = "a", .sequences = {5}}}));
  note(origin.keep_record("record"));
  note(origin.read_records());
  origin->notify("x");
  origin->release("one");
  note(origin.read({read_of("a")}));
  return errors;
}

TEST(RedisPermissions, NeedsTheDocumentedOnes) {
  const RealClock clock;
  const RedisServer server;
  const std::string permissions = documented_permissions();
  ASSERT_FALSE(permissions.empty());
  ASSERT_EQ(server.ask("ACL SETUSER weir on >pw " + permissions), "+OK\r\n");
  {
    const RunningOrigin origin(clock, server.port(), {.user = "weir", .password = "pw"});
    origin.await_ready();
    Inbox inbox;
    const Subscription subscription = origin->subscribe(inbox.handler());
    await([&] { return subscribers(server) == 1; });
    EXPECT_THAT(use_everything(origin), testing::IsEmpty());
    await([&] { return inbox.size() == 1; });
    await([&] { return origin->reach() == Reach::kPrompt; });
    await([&] { return number_in(server.ask("ZCARD weir:nodes")) == 1; });
    EXPECT_EQ(number_in(server.ask("ZCARD weir:due")), 2);
    EXPECT_EQ(number_in(server.ask("ZCARD weir:{bridge}:records")), 1);
    uint64_t errors = 0;
    for (uint8_t kind = 0; kind < static_cast<uint8_t>(OriginError::kCount); ++kind) {
      errors += origin->metrics().errors.total(static_cast<OriginError>(kind));
    }
    EXPECT_EQ(errors, 0u);
  }
  EXPECT_EQ(server.ask("ACL LOG"), "*0\r\n");
}

// Of a script, the error names all commands that it calls.
TEST(RedisPermissions, NamesTheMissingPermissionOfACall) {
  const RealClock clock;
  const RedisServer server;
  const std::string permissions = documented_permissions();
  for (const std::string command :
       {"hset", "hgetall", "hget", "hincrby", "hdel", "pexpire", "pttl", "set", "zadd", "zscore",
        "zrange", "zrangebyscore", "zremrangebyscore", "evalsha", "script|load"}) {
    SCOPED_TRACE(command);
    const size_t at = (permissions + " ").find(" +" + command + " ");
    ASSERT_NE(at, std::string::npos);
    const std::string others =
        permissions.substr(0, at) + permissions.substr(at + command.size() + 2);
    (void)server.ask("FLUSHALL");
    ASSERT_EQ(server.ask("ACL SETUSER weir reset on >pw " + others), "+OK\r\n");
    const RunningOrigin origin(clock, server.port(), {.user = "weir", .password = "pw"});
    // After a refused call the origin connects again: a later call may find it unreachable.
    std::string upper = command;
    for (char& each : upper) each = static_cast<char>(std::toupper(each));
    const auto names_it = [&] {
      for (const std::string& error : use_everything(origin)) {
        if (error.find("'" + command + "'") != std::string::npos) return true;
        if ((error + " ").find(" " + upper + " ") != std::string::npos) return true;
      }
      return false;
    };
    EXPECT_TRUE(await(names_it, std::chrono::seconds(60)));
    EXPECT_GT(origin->metrics().errors.total(OriginError::kRefused), 0u);
  }
}

TEST(RedisPermissions, ReportsNoEvictionsIfItMayNotReadThem) {
  const RealClock clock;
  const RedisServer server;
  (void)server.ask("ACL SETUSER default -info");
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  const auto grant = origin.acquire("one", kLease);
  ASSERT_TRUE(grant.ok());
  EXPECT_TRUE(grant->ours);
  EXPECT_EQ(grant->evicted, 0u);
  EXPECT_EQ(origin->metrics().errors.total(OriginError::kRefused), 0u);
}

}  // namespace
}  // namespace weir::origins
