#include "frontends/resp/script_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "catalog/changes.h"
#include "frontends/fixture_test.h"
#include "frontends/memory_catalog_test.h"
#include "frontends/resp/encoded_test.h"
#include "frontends/resp/resp_session.h"

namespace weir::frontends {
namespace {

using testing::StartsWith;

constexpr const char* kScript =
    "return redis.call('CL.THROTTLE', KEYS[1], ARGV[1], ARGV[2], ARGV[3])";
constexpr const char* kAdmitted = "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";

struct ScriptClient {
  Fixture& fixture;
  RespScratch scratch{};
  RespSession session{fixture.service, scratch, 7};
  TestConnection line{fixture, session};

  std::string send(const Words& words) { return line.send(encoded(words)); }
};

TEST(ReadScript, AcceptsASingleCallInAnyNotation) {
  for (const char* text :
       {kScript, "return redis.call(\"cl.throttle\",KEYS[1],ARGV[1],ARGV[2],ARGV[3]);",
        "\n  return\tredis.pcall ( 'CL.THROTTLE' , KEYS[ 1 ] , ARGV[1] , 30 , '60' ) ; \n",
        "-- limits\nreturn redis.call('CL.THROTTLE', KEYS[1], unpack(ARGV)) -- done",
        "return redis.call('CL.THROTTLE', ARGV[1], table.unpack(ARGV))",
        "return redis.call('CL.THROTTLE')"}) {
    EXPECT_TRUE(read_script(text).has_value()) << text;
  }
}

TEST(ReadScript, RefusesEverythingElse) {
  const std::string script = kScript;
  for (const std::string& text : std::vector<std::string>{
           "", "return 1", "return redis.call('GET', KEYS[1])",
           "redis.call('CL.THROTTLE', KEYS[1])", script + " + 1", script + "\nreturn 1",
           script + ";;", "return redis.call('CL.THROTTLE', KEYS[1], ARGV[1]",
           "return redis.call('CL.THROTTLE', KEYS[1], ARGV[x])",
           "return redis.call('CL.THROTTLE', KEYS[1], ARGV[1234567])",
           "return redis.call('CL.THROTTLE', KEYS[1], unpack(ARGV), 1)",
           "return redis.call('CL.THROTTLE', 'alice', ARGV[1])",  // the key must come from the
                                                                  // client
           "return redis.call('CL.THROTTLE', KEYS[1], '\\49', 1, 1)",
           "return redis.call('CL.THROTTLE', KEYS[1], 1.5, 1, 1)",
           "return redis.call('CL.THROTTLE', KEYS[1], 1, 1, 1, 1, 1)",
           "return redis.call('CL.THROTTLE, KEYS[1])", "returnredis.call('CL.THROTTLE', KEYS[1])",
           "--[[ x ]] " + script, script + std::string(kMaxScriptBytes, ' ')}) {
    EXPECT_FALSE(read_script(text).has_value()) << text;
  }
}

TEST(Script, ThrottlesLikeTheCommand) {
  Fixture fixture;
  ScriptClient client{fixture};
  EXPECT_EQ(client.send({"EVAL", kScript, "1", "alice", "15", "30", "60"}), kAdmitted);
  EXPECT_EQ(client.send({"CL.THROTTLE", "alice", "15", "30", "60"}),
            "*5\r\n:0\r\n:16\r\n:14\r\n:-1\r\n:4\r\n");
  EXPECT_EQ(client.send({"EVAL", "return redis.call('CL.THROTTLE', KEYS[2], unpack(ARGV))", "2",
                         "x", "bob", "15", "30", "60", "4"}),
            "*5\r\n:0\r\n:16\r\n:12\r\n:-1\r\n:8\r\n");
}

TEST(Script, IsAvailableByShaAfterLoadOrEval) {
  Fixture fixture;
  ScriptClient first{fixture};
  ScriptClient second{fixture};
  const std::string name = "20a3e96ef5efc4dcd8aa7d7e4b4b25cfdc37aa27";
  const ScriptName computed = name_of_script("abc");
  EXPECT_EQ(std::string(computed.data(), computed.size()),
            "a9993e364706816aba3e25717850c26c9cd0d89d");  // the standard's own example
  const ScriptName of_script = name_of_script(kScript);
  const std::string known(of_script.data(), of_script.size());
  EXPECT_EQ(second.send({"EVALSHA", known, "1", "alice", "15", "30", "60"}),
            "-NOSCRIPT No matching script. Please use EVAL.\r\n");
  EXPECT_EQ(first.send({"SCRIPT", "LOAD", kScript}), "$40\r\n" + known + "\r\n");
  EXPECT_EQ(second.send({"EVALSHA", known, "1", "alice", "15", "30", "60"}), kAdmitted);
  EXPECT_EQ(second.send({"SCRIPT", "EXISTS", known, name, "x"}), "*3\r\n:1\r\n:0\r\n:0\r\n");
  std::string capitals = known;
  for (char& c : capitals) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(second.send({"EVALSHA", capitals, "1", "bob", "15", "30", "60"}), kAdmitted);
  EXPECT_EQ(first.send({"SCRIPT", "FLUSH"}), "+OK\r\n");
  EXPECT_THAT(second.send({"EVALSHA", known, "1", "alice", "15", "30", "60"}),
              StartsWith("-NOSCRIPT"));
  EXPECT_EQ(second.send({"EVAL", kScript, "1", "carol", "15", "30", "60"}), kAdmitted);
  EXPECT_EQ(first.send({"EVALSHA", known, "1", "dave", "15", "30", "60"}), kAdmitted);
}

// rate-limiter-flexible with an insurance limiter counts in its own memory then, and tells nobody.
TEST(Script, CountsAnotherScriptForTheLogOfTheOperator) {
  Fixture fixture;
  ScriptClient client{fixture};
  const auto unsupported = [&] {
    return fixture.service.resp.stats.total(telemetry::FrontendStat::kUnsupported);
  };
  client.send({"EVAL", "return redis.call('INCR', KEYS[1])", "1", "a"});
  EXPECT_EQ(unsupported(), 1u);
  client.send({"SCRIPT", "LOAD", "return 1"});
  client.send({"MULTI"});
  client.send({"INCR", "a"});
  EXPECT_EQ(unsupported(), 3u);
  client.send({"DISCARD"});
  client.send({"EVAL", kScript, "1", "a", "15", "x", "60"});  // an error of the arguments
  EXPECT_EQ(unsupported(), 3u);
}

TEST(Script, NamesTheErrorInACall) {
  Fixture fixture;
  ScriptClient client{fixture};
  const std::pair<Words, std::string> mistakes[] = {
      {{"EVAL", "return 1", "0"},
       "-ERR Weir runs one kind of script: return redis.call('CL.THROTTLE', KEYS[1], ARGV[1], "
       "ARGV[2], ARGV[3])\r\n"},
      {{"EVAL", kScript, "x", "a"},
       "-ERR value is not an integer or out of range: numkeys says how many keys follow\r\n"},
      {{"EVAL", kScript, "-1", "a"},
       "-ERR value is not an integer or out of range: numkeys says how many keys follow\r\n"},
      {{"EVAL", kScript, "2", "a"}, "-ERR Number of keys can't be greater than number of args\r\n"},
      {{"EVAL", kScript, "1", "a", "1"}, "-ERR the script uses ARGV[2], but there are 1\r\n"},
      {{"EVAL", kScript, "0", "1", "1", "1"}, "-ERR the script uses KEYS[1], but there are 0\r\n"},
      {{"EVAL", kScript}, "-ERR wrong number of arguments for 'eval' command\r\n"},
      {{"EVALSHA", "x"}, "-ERR wrong number of arguments for 'evalsha' command\r\n"},
      {{"EVAL", kScript, "1", "a", "15", "x", "60"},
       "-ERR count is 'x': it must be a whole number from 1 to 1000000000000\r\n"},
      {{"EVAL", "return redis.call('CL.THROTTLE', KEYS[1], unpack(ARGV))", "1", "a", "1", "1", "1",
        "1", "1", "1", "1"},
       "-ERR wrong number of arguments for 'cl.throttle' command: CL.THROTTLE key max_burst count "
       "period [quantity]\r\n"},
      {{"SCRIPT", "LOAD", "return 1"},
       "-ERR Weir runs one kind of script: return redis.call('CL.THROTTLE', KEYS[1], ARGV[1], "
       "ARGV[2], ARGV[3])\r\n"},
      {{"SCRIPT", "KILL"},
       "-ERR unknown subcommand of SCRIPT: Weir supports LOAD script, EXISTS name ... and "
       "FLUSH\r\n"},
      {{"SCRIPT"},
       "-ERR unknown subcommand of SCRIPT: Weir supports LOAD script, EXISTS name ... and "
       "FLUSH\r\n"},
  };
  for (const auto& [words, expected] : mistakes) EXPECT_EQ(client.send(words), expected);
  EXPECT_EQ(fixture.limiter.stats().admitted, 0u);
}

TEST(Script, RequiresAKeyIfThePolicySaysSo) {
  Fixture fixture;
  fixture.service.resp_key_policy = KeyPolicy::kRequired;
  ScriptClient client{fixture};
  EXPECT_EQ(client.send({"EVAL", kScript, "1", "alice", "15", "30", "60"}),
            "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(client.send({"SCRIPT", "LOAD", kScript}), "-NOAUTH Authentication required.\r\n");
}

TEST(ScriptStore, IsBoundedAndEvalWorksWithoutSpace) {
  Fixture fixture;
  ScriptClient client{fixture};
  std::string script = kScript;
  for (size_t i = 0; i < kMaxScripts; ++i, script += ' ') {
    ASSERT_THAT(client.send({"SCRIPT", "LOAD", script}), StartsWith("$40"));
  }
  EXPECT_EQ(client.send({"SCRIPT", "LOAD", script}),
            "-ERR there are 256 scripts, the maximum: remove them with SCRIPT FLUSH\r\n");
  EXPECT_THAT(client.send({"SCRIPT", "LOAD", kScript}), StartsWith("$40"));  // it is already stored
  EXPECT_EQ(client.send({"EVAL", script, "1", "alice", "15", "30", "60"}), kAdmitted);
}

// All tenants shared 256 places, and a key without permissions could take all of them.
TEST(ScriptStore, HasAPlaceForEachWorkspaceAndNoneForAKeyThatMayNotLimit) {
  auto* const database = new MemoryCatalog;  // owned by the catalog
  Fixture fixture{{}, std::unique_ptr<catalog::CatalogStore>(database)};
  const catalog::Author author{.actor = "root", .now = fixture.clock.now().wall};
  const auto tenant = catalog::create_workspace(author, "tenant", 1);
  EXPECT_TRUE(database->write(std::vector{tenant}));
  const auto client_with = [&](const std::string& workspace, uint64_t seed,
                               const std::vector<std::string>& permissions) {
    const auto key = catalog::create_key(
        author, {.workspace = workspace, .name = "k", .permissions = permissions}, {seed, 1, 1});
    EXPECT_TRUE(database->write({&key.write, 1}));
    EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
    std::unique_ptr<ScriptClient> client(new ScriptClient{fixture});
    EXPECT_EQ(client->send({"AUTH", key.secret}), "+OK\r\n");
    return client;
  };
  const std::string home(catalog::kDefaultWorkspace);
  const auto idle = client_with(home, 1, {"key.*.read_key"});
  const auto user = client_with(home, 2, {"ratelimit.*.limit"});
  const auto other = client_with(tenant.row.id, 3, {"ratelimit.*.limit"});
  const ScriptName name = name_of_script(kScript);
  const std::string sha(name.data(), name.size());
  EXPECT_EQ(idle->send({"SCRIPT", "LOAD", kScript}),
            "-NOPERM the key lacks the permission ratelimit.*.limit\r\n");
  EXPECT_THAT(idle->send({"EVAL", kScript, "1", "alice", "15", "30", "60"}), StartsWith("-"));
  EXPECT_EQ(user->send({"SCRIPT", "EXISTS", sha}), "*1\r\n:0\r\n") << "it was not stored";
  std::string script = kScript;
  for (size_t i = 0; i < kMaxScripts; ++i, script += ' ') {
    ASSERT_THAT(user->send({"SCRIPT", "LOAD", script}), StartsWith("$40"));
  }
  EXPECT_THAT(user->send({"SCRIPT", "LOAD", script}), StartsWith("-ERR there are 256 scripts"));
  EXPECT_EQ(other->send({"SCRIPT", "EXISTS", sha}), "*1\r\n:0\r\n");
  EXPECT_THAT(other->send({"SCRIPT", "LOAD", script}), StartsWith("$40"));
}

TEST(ScriptStore, IsSafeWhileThreadsLoadAndFlush) {
  ScriptStore store;
  const ScriptName name = name_of_script(kScript);
  const std::string_view known(name.data(), name.size());
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      ScriptStore::View view;
      for (int round = 0; round < 1000; ++round) {
        if (i == 0) store.clear();
        if (i == 1) (void)store.add("", known, kScript);
        const auto* found = view.find(store, "", known);
        EXPECT_EQ(found == nullptr ? 4u : found->script.count, 4u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weir::frontends
