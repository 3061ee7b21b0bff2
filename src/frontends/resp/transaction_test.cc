// MULTI, EXEC and DISCARD in a session.

#include "frontends/resp/transaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "catalog/changes.h"
#include "frontends/fixture_test.h"
#include "frontends/memory_catalog_test.h"
#include "frontends/resp/encoded_test.h"
#include "frontends/resp/resp_session.h"
#include "frontends/waiting_test.h"

namespace weir::frontends {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct TransactionClient {
  Fixture fixture;
  RespScratch scratch;
  RespSession session{fixture.service, scratch, 7};
  TestConnection line{fixture, session};

  std::string send(const Words& words) { return line.send(encoded(words)); }
  uint64_t admitted() { return fixture.limiter.stats().admitted; }
};

const Words kThrottleAlice{"CL.THROTTLE", "alice", "1", "30", "60"};

TEST(Transaction, RepliesToQueuedCommandsWithOneArray) {
  TransactionClient client;
  EXPECT_EQ(client.send({"MULTI"}), "+OK\r\n");
  EXPECT_EQ(client.send(kThrottleAlice), "+QUEUED\r\n");
  EXPECT_EQ(client.send({"PING"}), "+QUEUED\r\n");
  EXPECT_EQ(client.send(kThrottleAlice), "+QUEUED\r\n");
  EXPECT_EQ(client.admitted(), 0u);  // nothing runs before EXEC
  EXPECT_EQ(client.send({"EXEC"}),
            "*3\r\n*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:2\r\n+PONG\r\n*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n"
            ":4\r\n");
  EXPECT_EQ(client.admitted(), 2u);
  EXPECT_EQ(client.send({"PING"}), "+PONG\r\n");  // the transaction has ended
}

TEST(Transaction, RepliesToAnEmptyTransactionWithAnEmptyArray) {
  TransactionClient client;
  EXPECT_EQ(client.line.send("MULTI\r\nEXEC\r\nPING\r\n"), "+OK\r\n*0\r\n+PONG\r\n");
}

// A connection in a transaction whose key was revoked.
struct EndedClient {
  MemoryCatalog* database = new MemoryCatalog;  // owned by the catalog
  Fixture fixture{{}, std::unique_ptr<catalog::CatalogStore>(database)};
  RespScratch scratch;
  RespSession session{fixture.service, scratch, 7};
  TestConnection line{fixture, session};

  EndedClient() {
    fixture.service.resp_key_policy = KeyPolicy::kRequired;
    const catalog::Author author{.actor = "root", .now = fixture.clock.now().wall};
    const auto key = catalog::create_key(
        author,
        {.workspace = catalog::kDefaultWorkspace, .name = "k", .permissions = {"ratelimit.*.*"}},
        {1, 2, 3});
    write(key.write);
    EXPECT_EQ(send({"AUTH", key.secret}), "+OK\r\n");
    EXPECT_EQ(send({"MULTI"}), "+OK\r\n");
    EXPECT_EQ(send(kThrottleAlice), "+QUEUED\r\n");
    write(catalog::revoke_key(author, key.key));
  }
  void write(const catalog::CatalogWrite& each) {
    EXPECT_TRUE(database->write({&each, 1}));
    EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  }
  std::string send(const Words& words) { return line.send(encoded(words)); }
};

TEST(Transaction, EndsWithExecIfTheKeyHasEnded) {
  EndedClient client;
  EXPECT_THAT(client.send({"EXEC"}), StartsWith("-WRONGPASS this key was revoked"));
  EXPECT_THAT(client.send({"PING"}), StartsWith("-WRONGPASS this key was revoked"));
  EXPECT_EQ(client.send({"AUTH", std::string(kKey)}), "+OK\r\n");
  EXPECT_EQ(client.send({"PING"}), "+PONG\r\n");
  EXPECT_EQ(client.fixture.limiter.stats().admitted, 0u);
}

TEST(Transaction, EndsWithDiscardIfTheKeyHasEnded) {
  EndedClient client;
  EXPECT_EQ(client.send({"DISCARD"}), "+OK\r\n");
  EXPECT_EQ(client.send({"HELLO", "2", "AUTH", "default", std::string(kKey)}).substr(0, 4),
            "*14\r");
  EXPECT_EQ(client.send({"PING"}), "+PONG\r\n");
}

TEST(Transaction, TakesAnotherKeyAtOnceIfTheFirstHasEnded) {
  EndedClient client;
  EXPECT_THAT(client.send({"AUTH", "weir_no_key"}), StartsWith("-WRONGPASS"));
  EXPECT_EQ(client.send({"AUTH", std::string(kKey)}), "+OK\r\n");
  EXPECT_EQ(client.send({"AUTH", std::string(kKey)}), "+QUEUED\r\n");
  // What the first key has queued does not run with the rights of the second.
  EXPECT_THAT(client.send({"EXEC"}), StartsWith("-EXECABORT"));
  EXPECT_EQ(client.fixture.limiter.stats().admitted, 0u);
  EXPECT_EQ(client.send({"PING"}), "+PONG\r\n");
}

TEST(Transaction, RunsNoDiscardedCommand) {
  TransactionClient client;
  EXPECT_EQ(client.line.send("MULTI\r\nCL.THROTTLE a 1 30 60\r\nDISCARD\r\n"),
            "+OK\r\n+QUEUED\r\n+OK\r\n");
  EXPECT_EQ(client.send({"EXEC"}), "-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(client.admitted(), 0u);
}

TEST(Transaction, IsAbortedAfterAnUnknownCommand) {
  for (const Words& wrong : {Words{"GET", "x"}, Words{"CL.THROTTLE", "a"}, Words{"ECHO"}}) {
    TransactionClient client;
    EXPECT_EQ(client.send({"MULTI"}), "+OK\r\n");
    EXPECT_EQ(client.send(kThrottleAlice), "+QUEUED\r\n");
    EXPECT_THAT(client.send(wrong), StartsWith("-ERR "));
    EXPECT_EQ(client.send(kThrottleAlice), "+QUEUED\r\n");
    EXPECT_EQ(client.send({"EXEC"}),
              "-EXECABORT Transaction discarded because of previous errors.\r\n");
    EXPECT_EQ(client.admitted(), 0u);
    EXPECT_EQ(client.send({"EXEC"}), "-ERR EXEC without MULTI\r\n");
  }
}

TEST(Transaction, ReportsAnInvalidArgumentAtItsPositionInTheArray) {
  TransactionClient client;
  const std::string received =
      client.line.send("MULTI\r\nCL.THROTTLE a x 30 60\r\nCL.THROTTLE a 1 30 60\r\nEXEC\r\n");
  EXPECT_THAT(received, StartsWith("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n-ERR max_burst is 'x'"));
  EXPECT_THAT(received, HasSubstr("\r\n*5\r\n:0\r\n"));
  EXPECT_EQ(client.admitted(), 1u);
}

TEST(Transaction, RefusesNestingAndContinues) {
  TransactionClient client;
  EXPECT_EQ(client.line.send("MULTI\r\nMULTI\r\nPING\r\nEXEC\r\n"),
            "+OK\r\n-ERR MULTI calls can not be nested\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
  EXPECT_EQ(client.send({"DISCARD"}), "-ERR DISCARD without MULTI\r\n");
  EXPECT_EQ(client.send({"MULTI", "x"}), "-ERR wrong number of arguments for 'multi' command\r\n");
}

TEST(Transaction, IsDiscardedByResetAndQuit) {
  TransactionClient client;
  EXPECT_EQ(client.line.send("MULTI\r\nCL.THROTTLE a 1 30 60\r\nRESET\r\nPING\r\n"),
            "+OK\r\n+QUEUED\r\n+RESET\r\n+PONG\r\n");
  EXPECT_EQ(client.line.send("MULTI\r\nCL.THROTTLE a 1 30 60\r\nQUIT\r\n"),
            "+OK\r\n+QUEUED\r\n+OK\r\n");
  EXPECT_EQ(client.line.next, Next::kClose);
  EXPECT_EQ(client.admitted(), 0u);
}

TEST(Transaction, RequiresAKeyIfThePolicySaysSo) {
  TransactionClient client;
  client.fixture.service.resp_key_policy = KeyPolicy::kRequired;
  EXPECT_EQ(client.send({"MULTI"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(client.send({"EXEC"}), "-NOAUTH Authentication required.\r\n");
}

TEST(Transaction, HasABoundedQueue) {
  TransactionClient client;
  EXPECT_EQ(client.send({"MULTI"}), "+OK\r\n");
  const Words echo{"ECHO", std::string(60'000, 'x')};
  const size_t fit = kMaxQueuedBytes / encoded(echo).size();
  for (size_t i = 0; i < fit; ++i) ASSERT_EQ(client.send(echo), "+QUEUED\r\n");
  EXPECT_EQ(client.send(echo),
            "-ERR more than 1048576 bytes between MULTI and EXEC: send less at a time, or a "
            "pipeline without MULTI\r\n");
  EXPECT_THAT(client.send({"EXEC"}), StartsWith("-EXECABORT"));
}

TEST(Transaction, PausesAtTheLimitOfUnsentBytesAndLosesNoResponse) {
  TransactionClient client;
  const std::string word(60'000, 'x');
  ASSERT_EQ(client.send({"MULTI"}), "+OK\r\n");
  std::string expected = "*10\r\n";
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(client.send({"ECHO", word}), "+QUEUED\r\n");
    expected += "$60000\r\n" + word + "\r\n";
  }
  client.line.in.append(encoded({"EXEC"}) + encoded({"PING"}));
  EXPECT_EQ(client.session.process(client.fixture.clock.now(), client.line.in, client.line.out),
            Next::kAgain);
  EXPECT_LT(client.line.out.size(), kMaxUnsent + word.size() + 100);
  EXPECT_EQ(client.line.send(""), expected + "+PONG\r\n");
}

TEST(Transaction, ContinuesAfterAPendingDecision) {
  WaitingFixture late;
  RespScratch scratch;
  RespSession session(late.service, scratch, 7);
  session.bind(late.executor, [] {});
  TestConnection line{late.fixture, session};
  std::string received = line.send(
      "MULTI\r\nCL.THROTTLE a 9 10 60\r\nPING\r\nCL.THROTTLE a 9 10 60\r\nEXEC\r\nECHO x\r\n");
  EXPECT_EQ(line.next, Next::kWait);
  int turns = 0;
  for (; line.next == Next::kWait && turns < 10; ++turns) {
    ASSERT_EQ(late.backend.waiting(), 1u);
    late.backend.finish();
    received += line.send("");
  }
  EXPECT_EQ(turns, 2);
  EXPECT_EQ(received,
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:6\r\n"
            "+PONG\r\n*5\r\n:0\r\n:10\r\n:8\r\n:-1\r\n:12\r\n$1\r\nx\r\n");
}

// A transaction has the same replies as a pipeline of its commands.
RC_GTEST_PROP(Transaction, RepliesLikeAPipeline, ()) {
  static const std::vector<Words> kCommands{
      {"CL.THROTTLE", "a", "1", "30", "60"},
      {"CL.THROTTLE", "b", "5", "30", "60", "2"},
      {"CL.THROTTLE", "a", "x", "30", "60"},
      {"GCRA", "a", "5", "30", "0.5", "TOKENS", "2"},
      {"GCRA", "a", "5", "30", "nan"},
      {"WEIR.LIMIT", "n", "i", "5", "1000"},
      {"WEIR.PEEK", "n", "i", "5", "1000"},
      {"WEIR.MULTI", "ITEM", "n", "i", "5", "1000"},
      {"DEL", "a", "b"},
      {"PING"},
      {"ECHO", "x\r\ny"},
      {"HELLO", "3"},
      {"HELLO", "2"},
      {"CLIENT", "SETNAME", "x"},
      {"CLIENT", "GETNAME"},
      {"COMMAND", "COUNT"},
      {"SELECT", "3"},
      {"WEIR.RESET", "n", "i", "1000", "ALGORITHM", "gcra"},
      {"EVAL", "return redis.call('CL.THROTTLE', KEYS[1], 1, 30, 60)", "1", "a"},
      {"EVAL", "return 1", "0"},
      {"INFO"}};
  const auto command = rc::gen::elementOf(kCommands);
  const auto commands = *rc::gen::container<std::vector<Words>>(command);
  std::string pipeline;
  std::string queued = "+OK\r\n";
  for (const Words& words : commands) {
    pipeline += encoded(words);
    queued += "+QUEUED\r\n";
  }
  TransactionClient plain;
  const std::string answers = plain.line.send(pipeline);
  TransactionClient wrapped;
  const std::string received =
      wrapped.line.send(encoded({"MULTI"}) + pipeline + encoded({"EXEC"}) + encoded({"PING"}));
  RC_ASSERT(received ==
            queued + "*" + std::to_string(commands.size()) + "\r\n" + answers + "+PONG\r\n");
}

}  // namespace
}  // namespace weir::frontends
