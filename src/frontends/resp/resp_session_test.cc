#include "frontends/resp/resp_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "catalog/changes.h"
#include "frontends/fixture_test.h"
#include "frontends/memory_catalog_test.h"
#include "frontends/resp/encoded_test.h"
#include "weir/version.h"

namespace weir::frontends {
namespace {

using telemetry::FrontendStat;
using testing::HasSubstr;
using testing::StartsWith;

struct RespClient {
  Fixture fixture;
  RespScratch scratch;
  RespSession session{fixture.service, scratch, 7};
  TestConnection line{fixture, session};

  std::string send(const Words& words) { return line.send(encoded(words)); }
};

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

struct Expected {
  bool success = true;
  int limit = 0;
  int remaining = 0;
  int64_t reset = 0;
  int64_t retry_after = -1;
};

std::string resp_answer(int protocol, const Expected& is) {
  const auto number = [](int64_t value) { return ":" + std::to_string(value) + "\r\n"; };
  const std::string success =
      protocol == 3 ? (is.success ? "#t\r\n" : "#f\r\n") : number(is.success ? 1 : 0);
  return (protocol == 3 ? "%6\r\n" : "*12\r\n") + bulk("success") + success + bulk("limit") +
         number(is.limit) + bulk("remaining") + number(is.remaining) + bulk("reset") +
         number(is.reset) + bulk("retry_after") + number(is.retry_after) + bulk("basis") +
         bulk("local");
}

std::string hello(int protocol) {
  return (protocol == 3 ? "%7\r\n" : "*14\r\n") + bulk("server") + bulk("weir") + bulk("version") +
         bulk(WEIR_VERSION) + bulk("proto") + ":" + std::to_string(protocol) + "\r\n" + bulk("id") +
         ":7\r\n" + bulk("mode") + bulk("standalone") + bulk("role") + bulk("master") +
         bulk("modules") + "*0\r\n";
}

constexpr int64_t kMinuteEnd = 1'699'999'260'000;  // of the minute in which the clock starts

TEST(RespSession, ThrottlesAsRedisCellDoes) {
  RespClient client;
  EXPECT_EQ(client.send({"CL.THROTTLE", "alice", "1", "30", "60"}),
            "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:2\r\n");
  EXPECT_EQ(client.send({"cl.throttle", "alice", "1", "30", "60"}),
            "*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:4\r\n");
  EXPECT_EQ(client.send({"CL.THROTTLE", "alice", "1", "30", "60"}),
            "*5\r\n:1\r\n:2\r\n:0\r\n:2\r\n:4\r\n");
  client.fixture.clock.advance(Millis(1999));
  EXPECT_EQ(client.send({"CL.THROTTLE", "alice", "1", "30", "60"}),
            "*5\r\n:1\r\n:2\r\n:0\r\n:1\r\n:3\r\n");
  client.fixture.clock.advance(Millis(1));
  EXPECT_EQ(client.send({"CL.THROTTLE", "alice", "1", "30", "60"}),
            "*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:4\r\n");
  EXPECT_EQ(client.send({"CL.THROTTLE", "bob", "1", "30", "60", "3"}),
            "*5\r\n:1\r\n:2\r\n:2\r\n:-1\r\n:0\r\n");
}

TEST(RespSession, RepliesToALimitInBothVersionsOfTheProtocol) {
  RespClient client;
  EXPECT_EQ(client.send({"WEIR.LIMIT", "api", "alice", "2", "60000"}),
            "*12\r\n$7\r\nsuccess\r\n:1\r\n$5\r\nlimit\r\n:2\r\n$9\r\nremaining\r\n:1\r\n"
            "$5\r\nreset\r\n:1699999260000\r\n$11\r\nretry_after\r\n:-1\r\n$5\r\nbasis\r\n"
            "$5\r\nlocal\r\n");
  EXPECT_EQ(client.send({"HELLO", "3"}), hello(3));
  EXPECT_EQ(client.send({"WEIR.LIMIT", "api", "alice", "2", "60000", "ALGORITHM", "fixed_window"}),
            "%6\r\n$7\r\nsuccess\r\n#t\r\n$5\r\nlimit\r\n:2\r\n$9\r\nremaining\r\n:0\r\n"
            "$5\r\nreset\r\n:1699999260000\r\n$11\r\nretry_after\r\n:-1\r\n$5\r\nbasis\r\n"
            "$5\r\nlocal\r\n");
  EXPECT_EQ(
      client.send({"WEIR.LIMIT", "api", "alice", "2", "60000", "ALGORITHM", "fixed_window"}),
      resp_answer(3, {.success = false, .limit = 2, .reset = kMinuteEnd, .retry_after = 60'000}));
}

TEST(RespSession, PeeksWithoutConsuming) {
  RespClient client;
  const Expected untouched{.limit = 5, .remaining = 5, .reset = kMinuteEnd};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.send({"WEIR.PEEK", "api", "alice", "5", "60000"}), resp_answer(2, untouched));
  }
}

TEST(RespSession, AdmitsABatchAtomically) {
  RespClient client;
  const Words batch{"WEIR.MULTI", "ITEM", "api", "alice", "5", "60000", "COST",
                    "3",          "ITEM", "api", "all",   "9", "60000"};
  for (const int protocol : {2, 3}) {
    ASSERT_EQ(client.send({"HELLO", std::to_string(protocol)}), hello(protocol));
    const bool first = protocol == 2;
    const std::string head = (first ? "*4\r\n" : "%2\r\n") + bulk("success") +
                             (first ? ":1\r\n" : "#f\r\n") + bulk("limits") + "*2\r\n";
    const std::string all = client.send(batch);
    EXPECT_THAT(all, StartsWith(head));
    if (first) {
      EXPECT_EQ(all, head + resp_answer(2, {.limit = 5, .remaining = 2, .reset = kMinuteEnd}) +
                         resp_answer(2, {.limit = 9, .remaining = 8, .reset = kMinuteEnd}));
    }
  }
  // Items of the refused second batch that would pass alone are not counted as admitted.
  const auto& decisions = client.fixture.service.resp.decisions;
  EXPECT_EQ(decisions.total(telemetry::decided(Outcome::kAdmitted, Basis::kLocal)), 2u);
  EXPECT_EQ(decisions.total(telemetry::decided(Outcome::kDenied, Basis::kLocal)), 2u);
  EXPECT_EQ(client.send({"WEIR.PEEK", "api", "all", "9", "60000"}),
            resp_answer(3, {.limit = 9, .remaining = 8, .reset = kMinuteEnd}));
}

TEST(RespSession, RepliesWithAnErrorOfTheLimiter) {
  RespClient client;
  EXPECT_EQ(client.send({"WEIR.LIMIT", "api", "alice", "5", "60000", "BURST", "9"}),
            "-ERR burst is 9, but sliding_window has none: leave burst out, or choose gcra or "
            "token_bucket\r\n");
  EXPECT_THAT(client.send({"WEIR.MULTI", "ITEM", "a", "b", "5", "60000", "BURST", "9"}),
              StartsWith("-ERR "));
  EXPECT_EQ(client.line.next, Next::kRead);
  EXPECT_EQ(client.fixture.service.resp.stats.total(FrontendStat::kBad), 2u);
}

TEST(RespSession, RepliesToHello) {
  RespClient client;
  EXPECT_EQ(client.send({"HELLO"}), hello(2));
  EXPECT_EQ(client.send({"hello", "3", "setname", "me"}), hello(3));
  EXPECT_EQ(client.send({"CLIENT", "GETNAME"}), bulk("me"));
  EXPECT_EQ(client.send({"HELLO", "4"}), "-NOPROTO unsupported protocol version\r\n");
  EXPECT_EQ(client.send({"HELLO", "33"}), "-NOPROTO unsupported protocol version\r\n");
  for (const Words& words : {Words{"HELLO", "2", "SETNAME"}, Words{"HELLO", "2", "AUTH", "x"},
                             Words{"HELLO", "2", "WHAT"}}) {
    EXPECT_EQ(client.send(words), "-ERR syntax error in HELLO\r\n");
  }
  EXPECT_EQ(client.send({"HELLO"}), hello(3));  // a failed HELLO changes nothing
}

TEST(RespSession, SupportsTheCommandsThatClientsSendFirst) {
  RespClient client;
  const std::pair<Words, std::string> answers[] = {
      {{"PING"}, "+PONG\r\n"},
      {{"ping", "a b"}, bulk("a b")},
      {{"PING", "a", "b"}, "-ERR wrong number of arguments for 'ping' command\r\n"},
      {{"ECHO", "x\r\ny"}, bulk("x\r\ny")},
      {{"ECHO"}, "-ERR wrong number of arguments for 'echo' command\r\n"},
      {{"SELECT", "0"}, "+OK\r\n"},
      {{"SELECT", "1"},
       "-ERR DB index is out of range: it is '1', and Weir has only database 0: use a key prefix "
       "instead\r\n"},
      {{"SELECT"}, "-ERR wrong number of arguments for 'select' command\r\n"},
      {{"CLIENT", "GETNAME"}, "$-1\r\n"},
      {{"CLIENT", "SETNAME", "me"}, "+OK\r\n"},
      {{"CLIENT", "GETNAME"}, bulk("me")},
      {{"CLIENT", "SETINFO", "LIB-NAME", "x"}, "+OK\r\n"},
      {{"CLIENT", "NO-EVICT", "on"}, "+OK\r\n"},
      {{"CLIENT", "NO-TOUCH", "on"}, "+OK\r\n"},
      {{"CLIENT", "ID"}, ":7\r\n"},
      {{"COMMAND", "COUNT"}, ":28\r\n"},
      {{"COMMAND", "DOCS", "ping"}, "*0\r\n"},
      {{"COMMAND", "INFO"}, "*0\r\n"},
      {{"COMMAND", "INFO", "CL.Throttle", "get"},
       "*2\r\n*10\r\n" + bulk("cl.throttle") +
           ":-5\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n*-1\r\n"},
      {{"COMMAND", "GETKEYS", "ping"},
       "-ERR unknown subcommand of COMMAND: Weir supports COUNT, DOCS, INFO and LIST\r\n"},
      {{"CONFIG", "GET", "save"}, "*2\r\n" + bulk("save") + bulk("")},
      {{"CONFIG", "GET", "appendonly"}, "*2\r\n" + bulk("appendonly") + bulk("no")},
      {{"CONFIG", "GET", "maxmemory"}, "*0\r\n"},
      {{"CONFIG", "SET", "save"},
       "-ERR Weir is configured by flags and a file: run weir serve --help\r\n"},
      {{"RESET"}, "+RESET\r\n"},
      {{"CLIENT", "GETNAME"}, "$-1\r\n"},
      {{"GET", "x"},
       "-ERR unknown command 'GET': Weir supports CL.THROTTLE, GCRA, WEIR.LIMIT, WEIR.PEEK, "
       "WEIR.MULTI and WEIR.RESET\r\n"},
      {{"a\r\nb"},
       "-ERR unknown command 'a  b': Weir supports CL.THROTTLE, GCRA, WEIR.LIMIT, WEIR.PEEK, "
       "WEIR.MULTI and WEIR.RESET\r\n"},
  };
  for (const auto& [words, expected] : answers) EXPECT_EQ(client.send(words), expected) << words[0];
  for (const Words& words :
       {Words{"CLIENT"}, Words{"CLIENT", "KILL"}, Words{"CLIENT", "SETNAME"}}) {
    EXPECT_EQ(
        client.send(words),
        "-ERR unknown subcommand of CLIENT: Weir supports SETNAME, GETNAME, SETINFO and ID\r\n");
  }
}

TEST(RespSession, RepliesWithNullAndMapsInResp3) {
  RespClient client;
  ASSERT_EQ(client.send({"HELLO", "3"}), hello(3));
  EXPECT_EQ(client.send({"CLIENT", "GETNAME"}), "_\r\n");
  EXPECT_EQ(client.send({"COMMAND", "DOCS"}), "%0\r\n");
  EXPECT_EQ(client.send({"CONFIG", "GET", "save"}), "%1\r\n" + bulk("save") + bulk(""));
  EXPECT_EQ(client.send({"RESET"}), "+RESET\r\n");
  EXPECT_EQ(client.send({"CLIENT", "GETNAME"}), "$-1\r\n");
}

TEST(RespSession, ListsItsCommandsWithTheirArity) {
  RespClient client;
  const std::string all = client.send({"COMMAND"});
  EXPECT_THAT(all, StartsWith("*28\r\n*10\r\n" + bulk("cl.throttle") +
                              ":-5\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"));
  EXPECT_THAT(all, HasSubstr(bulk("quit") + ":1\r\n*1\r\n+fast\r\n:0\r\n:0\r\n:0\r\n"));
  EXPECT_THAT(all, HasSubstr(bulk("del") + ":-2\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:-1\r\n:1\r\n"));
  EXPECT_THAT(client.send({"COMMAND", "LIST"}), StartsWith("*28\r\n" + bulk("cl.throttle")));
}

TEST(RespSession, RepliesToInfo) {
  RespClient client;
  client.fixture.clock.advance(Millis(61'999));
  client.send({"CL.THROTTLE", "alice", "0", "1", "60"});
  client.send({"CL.THROTTLE", "alice", "0", "1", "60"});
  EXPECT_EQ(client.send({"INFO"}),
            bulk("# Server\r\nweir_version:" WEIR_VERSION
                 "\r\nredis_version:0.0.0 (this is Weir, a rate limiter that stores no data: use "
                 "Redis for it)\r\nredis_mode:standalone\r\nregion:here\r\nnode:node-1\r\n"
                 "uptime_in_seconds:61\r\n\r\n# Replication\r\nrole:master\r\n\r\n"
                 "# Cluster\r\ncluster_enabled:0\r\n\r\n"
                 "# Decisions\r\nadmitted:1\r\ndenied:1\r\ndegraded:0\r\ncells:1\r\n"));
}

TEST(RespSession, IgnoresRequestsAfterQuit) {
  RespClient client;
  EXPECT_EQ(client.line.send("PING\r\nQUIT\r\nPING\r\n"), "+PONG\r\n+OK\r\n");
  EXPECT_EQ(client.line.next, Next::kClose);
}

TEST(RespSession, AnswersRequestsBeforeAProtocolErrorAndCloses) {
  RespClient client;
  EXPECT_EQ(client.line.send("CL.THROTTLE alice 1 30 60\r\n*x\r\nPING\r\n"),
            "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:2\r\n"
            "-ERR Protocol error: invalid multibulk length\r\n");
  EXPECT_EQ(client.line.next, Next::kClose);
}

TEST(RespSession, KeepsTheOrderOfDecisionsAndOtherCommands) {
  RespClient client;
  const Words limit{"WEIR.LIMIT", "api", "alice", "9", "60000"};
  const auto remaining = [](int count) {
    return resp_answer(2, {.limit = 9, .remaining = count, .reset = kMinuteEnd});
  };
  EXPECT_EQ(client.line.send(encoded(limit) + encoded(limit) + encoded({"PING"}) + encoded(limit) +
                             encoded({"WEIR.LIMIT"}) + encoded(limit) +
                             encoded({"WEIR.MULTI", "ITEM", "api", "alice", "9", "60000"}) +
                             encoded(limit) + encoded({"CL.THROTTLE", "bob", "1", "30", "60"})),
            remaining(8) + remaining(7) + "+PONG\r\n" + remaining(6) +
                "-ERR an item needs namespace identifier limit duration_ms\r\n" + remaining(5) +
                "*4\r\n" + bulk("success") + ":1\r\n" + bulk("limits") + "*1\r\n" + remaining(4) +
                remaining(3) + "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:2\r\n");
}

TEST(RespSession, RepliesInTheProtocolVersionOfEachRequest) {
  RespClient client;
  const std::string limit = encoded({"WEIR.PEEK", "api", "alice", "9", "60000"});
  const Expected is{.limit = 9, .remaining = 9, .reset = kMinuteEnd};
  EXPECT_EQ(client.line.send(limit + encoded({"HELLO", "3"}) + limit),
            resp_answer(2, is) + hello(3) + resp_answer(3, is));
}

TEST(RespSession, DecidesMoreRequestsThanOneGroup) {
  for (const size_t count : {RespScratch::kGroup - 1, RespScratch::kGroup, RespScratch::kGroup + 1,
                             3 * RespScratch::kGroup + 5}) {
    RespClient client;
    std::string request;
    std::string expected;
    for (size_t i = 0; i < count; ++i) {
      request += encoded({"WEIR.LIMIT", "api", "alice", "1000", "60000"});
      expected += resp_answer(
          2, {.limit = 1000, .remaining = static_cast<int>(999 - i), .reset = kMinuteEnd});
    }
    EXPECT_EQ(client.line.send(request), expected);
    EXPECT_EQ(client.fixture.service.resp.stats.total(FrontendStat::kRequests), count);
    EXPECT_EQ(client.fixture.service.resp.decisions.total(
                  telemetry::decided(Outcome::kAdmitted, Basis::kLocal)),
              count);
  }
}

TEST(RespSession, PausesAtTheLimitOfUnsentBytesAndLosesNoResponse) {
  RespClient client;
  const std::string word(60'000, 'x');
  std::string request;
  std::string expected;
  for (int i = 0; i < 10; ++i) {
    request += encoded({"ECHO", word});
    expected += bulk(word);
  }
  client.line.in.append(request);
  EXPECT_EQ(client.session.process(client.fixture.clock.now(), client.line.in, client.line.out),
            Next::kAgain);
  EXPECT_GT(client.line.out.size(), kMaxUnsent);
  EXPECT_LT(client.line.out.size(), kMaxUnsent + word.size() + 100);
  EXPECT_EQ(client.line.send(""), expected);
}

TEST(RespSession, RequiresAKeyIfThePolicySaysSo) {
  RespClient client;
  client.fixture.service.resp_key_policy = KeyPolicy::kRequired;
  for (const Words& words :
       {Words{"PING"}, Words{"CL.THROTTLE", "alice", "1", "30", "60"},
        Words{"GCRA", "alice", "1", "30", "60"}, Words{"WEIR.LIMIT", "a", "b", "1", "100"},
        Words{"WEIR.PEEK", "a", "b", "1", "100"}, Words{"WEIR.MULTI", "ITEM", "a", "b", "1", "100"},
        Words{"INFO"}, Words{"COMMAND"}, Words{"GET", "x"}, Words{"RESET"}}) {
    EXPECT_EQ(client.send(words), "-NOAUTH Authentication required.\r\n") << words[0];
  }
  EXPECT_EQ(client.fixture.limiter.stats().admitted, 0u);
  EXPECT_EQ(client.send({"HELLO", "3"}),
            "-NOAUTH HELLO must be called with AUTH: HELLO 3 AUTH default <root key>\r\n");
  EXPECT_EQ(client.send({"AUTH", "wrong"}), "-WRONGPASS invalid key\r\n");
  EXPECT_EQ(client.send({"HELLO", "3", "AUTH", "default", "wrong"}), "-WRONGPASS invalid key\r\n");
  EXPECT_EQ(client.send({"AUTH"}), "-ERR wrong number of arguments for 'auth' command\r\n");
  EXPECT_EQ(client.send({"PING"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(client.send({"AUTH", std::string(kKey)}), "+OK\r\n");
  EXPECT_EQ(client.send({"PING"}), "+PONG\r\n");
  EXPECT_EQ(client.send({"RESET"}), "+RESET\r\n");
  EXPECT_EQ(client.send({"PING"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(client.send({"AUTH", "default", std::string(kKey)}), "+OK\r\n");
  EXPECT_EQ(client.send({"PING"}), "+PONG\r\n");
}

TEST(RespSession, LimitsTheBuffersOfAnUnauthenticatedClient) {
  Fixture fixture;
  fixture.service.resp_key_policy = KeyPolicy::kRequired;
  RespScratch scratch;
  RespSession session(fixture.service, scratch, 7);
  TestConnection line{fixture, session};
  EXPECT_EQ(session.max_unread(), kMaxUnauthenticatedBytes);
  EXPECT_EQ(line.send("*2\r\n$4\r\nECHO\r\n$60000\r\n"), "");
  EXPECT_EQ(line.send(std::string(kMaxUnauthenticatedBytes, 'x')),
            "-ERR Protocol error: more than 16384 bytes before authentication\r\n");
  EXPECT_EQ(line.next, Next::kClose);

  RespSession other(fixture.service, scratch, 8);
  TestConnection key{fixture, other};
  const std::string word(60'000, 'x');
  EXPECT_EQ(key.send(encoded({"AUTH", std::string(kKey)}) + encoded({"ECHO", word})),
            "+OK\r\n$60000\r\n" + word + "\r\n");
  EXPECT_EQ(other.max_unread(), kMaxUnread);
  EXPECT_EQ(other.trust(), Trust::kRoot);
  key.send(encoded({"RESET"}));
  EXPECT_EQ(other.max_unread(), kMaxUnauthenticatedBytes);
}

TEST(RespSession, IsServedAfterARequestWithoutARequiredKey) {
  RespClient client;
  EXPECT_EQ(client.session.max_unread(), kMaxUnread);
  EXPECT_EQ(client.line.send("\r\n*0\r\n*1\r\n$4\r\nPI"), "");
  EXPECT_EQ(client.session.trust(), Trust::kUnauthenticated);
  EXPECT_EQ(client.line.send("NG\r\n"), "+PONG\r\n");
  EXPECT_EQ(client.session.trust(), Trust::kServed);
}

TEST(RespSession, DelaysTheResponseToAWrongKeyAndCountsTheReason) {
  RespClient client;
  client.fixture.service.resp_key_policy = KeyPolicy::kRequired;
  Bytes& in = client.line.in;
  Bytes& out = client.line.out;
  const auto take = [&] { return client.session.process(client.fixture.clock.now(), in, out); };
  for (size_t i = 0; i < WrongKeys::kKeys; ++i) {
    in.append(encoded({"AUTH", "wrong" + std::to_string(i)}));
    EXPECT_EQ(take(), Next::kRead);
    EXPECT_EQ(client.line.received(), "-WRONGPASS invalid key\r\n");
  }
  in.append(encoded({"AUTH", "wrong"}) + encoded({"HELLO", "3", "AUTH", "x", "wrong too"}) +
            encoded({"PING"}));
  EXPECT_EQ(take(), Next::kDelay);
  EXPECT_EQ(client.line.received(), "-WRONGPASS invalid key\r\n");
  EXPECT_EQ(take(), Next::kDelay);
  EXPECT_EQ(client.line.received(), "-WRONGPASS invalid key\r\n");
  EXPECT_EQ(take(), Next::kRead);
  EXPECT_EQ(client.line.received(), "-NOAUTH Authentication required.\r\n");
  const auto& stats = client.fixture.service.resp.stats;
  EXPECT_EQ(stats.total(telemetry::FrontendStat::kWrongKey), WrongKeys::kKeys + 2);
  EXPECT_EQ(stats.total(telemetry::FrontendStat::kMissingKey), 1u);
}

TEST(RespSession, ClosesWithoutAReplyOnHttp) {
  const std::string command = "CL.THROTTLE victim 1 1 60\r\n";
  for (const std::string first :
       {"POST / HTTP/1.1\r\n", "post /x HTTP/1.1\r\n", "GET / HTTP/1.1\r\n", "Host: weir\r\n",
        "OPTIONS * HTTP/1.1\r\n", "PUT / HTTP/1.0\r\n", "*1\r\n$4\r\nPOST\r\n"}) {
    for (const KeyPolicy keys : {KeyPolicy::kNotRequired, KeyPolicy::kRequired}) {
      RespClient client;
      client.fixture.service.resp_key_policy = keys;
      EXPECT_EQ(client.line.send(first + "Host: weir\r\n\r\n" + command), "") << first;
      EXPECT_EQ(client.line.next, Next::kClose);
      EXPECT_EQ(client.fixture.limiter.stats().admitted, 0u);
      EXPECT_EQ(client.fixture.service.resp.stats.total(telemetry::FrontendStat::kCrossProtocol),
                1u);
    }
  }
  RespClient client;
  EXPECT_EQ(client.send({"ECHO", "HTTP/1.1"}), "$8\r\nHTTP/1.1\r\n");
}

TEST(RespSession, AcceptsTheKeyInHello) {
  RespClient client;
  client.fixture.service.resp_key_policy = KeyPolicy::kRequired;
  EXPECT_EQ(client.send({"HELLO", "3", "AUTH", "default", std::string(kKey)}), hello(3));
  EXPECT_EQ(client.send({"PING"}), "+PONG\r\n");
}

TEST(RespSession, AcceptsQuitWithoutAKey) {
  RespClient client;
  client.fixture.service.resp_key_policy = KeyPolicy::kRequired;
  EXPECT_EQ(client.send({"QUIT"}), "+OK\r\n");
  EXPECT_EQ(client.line.next, Next::kClose);
}

TEST(RespSession, AnswersTheSameForAnySplitOfTheInput) {
  const std::string request =
      "PING\r\n\r\n" + encoded({"WEIR.LIMIT", "api", "alice", "3", "60000"}) +
      "CL.THROTTLE bob 1 30 60\r\n" + encoded({"HELLO", "3"}) + encoded({}) +
      encoded({"WEIR.LIMIT", "api", "alice", "3", "60000"}) + "WEIR.LIMIT api\r\n" +
      encoded({"WEIR.MULTI", "ITEM", "a", "b", "1", "100", "ITEM", "a", "b", "1", "100"}) +
      "*1\r\n$4\r\nQUIT\r\nPING\r\n";
  RespClient whole;
  const std::string expected = whole.line.send(request);
  ASSERT_EQ(whole.line.next, Next::kClose);
  for (size_t cut = 1; cut < request.size(); ++cut) {
    RespClient split;
    std::string received = split.line.send(request.substr(0, cut));
    if (split.line.next != Next::kClose) received += split.line.send(request.substr(cut));
    EXPECT_EQ(received, expected) << cut;
  }
  for (const size_t size : {1, 2, 3, 7, 64}) {
    RespClient slow;
    EXPECT_EQ(slow.line.send_in_pieces(request, size), expected) << size;
  }
}

TEST(RespSession, EndsARootKeyThatIsReplacedOnAnOpenConnection) {
  for (const KeyPolicy policy : {KeyPolicy::kRequired, KeyPolicy::kNotRequired}) {
    RespClient client;
    client.fixture.service.resp_key_policy = policy;
    const std::string old(kKey);
    const std::string fresh = "weir_root_that_replaces_the_first";
    EXPECT_EQ(client.send({"AUTH", old}), "+OK\r\n");
    EXPECT_EQ(client.send({"PING"}), "+PONG\r\n");
    client.fixture.keys.replace(rules::hash_of(fresh));
    EXPECT_THAT(client.send({"PING"}), StartsWith("-WRONGPASS"));
    EXPECT_THAT(client.send({"WEIR.LIMIT", "api", "alice", "2", "60000"}),
                StartsWith("-WRONGPASS"));
    EXPECT_THAT(client.send({"WEIR.RESET", "api", "alice", "60000"}), StartsWith("-WRONGPASS"));
    EXPECT_THAT(client.send({"AUTH", old}), StartsWith("-WRONGPASS"));
    EXPECT_EQ(client.send({"AUTH", fresh}), "+OK\r\n");
    EXPECT_EQ(client.send({"PING"}), "+PONG\r\n");
  }
}

TEST(RespSession, EndsAKeyOfTheCatalogOnAnOpenConnection) {
  auto store = std::make_unique<MemoryCatalog>();
  MemoryCatalog& database = *store;
  Fixture fixture({}, std::move(store));
  fixture.service.resp_key_policy = KeyPolicy::kRequired;
  RespScratch scratch;
  const catalog::Author author{.actor = "root", .now = fixture.clock.now().wall};
  const auto made = [&](uint64_t seed, std::optional<WallTime> expires) {
    auto key = catalog::create_key(author,
                                   {.workspace = catalog::kDefaultWorkspace,
                                    .name = "k",
                                    .permissions = {"ratelimit.*.*"},
                                    .expires = expires},
                                   {seed, seed, seed});
    EXPECT_TRUE(database.write({&key.write, 1}));
    return key;
  };
  const catalog::NewKey revoked = made(1, {});
  const catalog::NewKey expires = made(2, author.now + Millis(1000));
  EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  RespSession first(fixture.service, scratch, 1);
  RespSession second(fixture.service, scratch, 2);
  TestConnection one{fixture, first};
  TestConnection two{fixture, second};
  EXPECT_EQ(one.send(encoded({"AUTH", revoked.secret})), "+OK\r\n");
  EXPECT_EQ(two.send(encoded({"AUTH", expires.secret})), "+OK\r\n");
  const Words limit{"WEIR.LIMIT", "api", "alice", "9", "60000"};
  EXPECT_THAT(one.send(encoded(limit)), StartsWith("*12"));
  EXPECT_THAT(two.send(encoded(limit)), StartsWith("*12"));

  const auto end = catalog::revoke_key(author, revoked.key);
  EXPECT_TRUE(database.write({&end, 1}));
  EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  EXPECT_THAT(one.send(encoded(limit)), StartsWith("-WRONGPASS"));
  fixture.clock.advance(Millis(999));
  EXPECT_THAT(two.send(encoded(limit)), StartsWith("*12"));
  fixture.clock.advance(Millis(1));
  EXPECT_THAT(two.send(encoded(limit)), StartsWith("-WRONGPASS"));
}

}  // namespace
}  // namespace weir::frontends
