#include "frontends/resp/resp_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "frontends/front_test.h"
#include "frontends/resp/encoded_test.h"
#include "weir/version.h"

namespace weir::frontends {
namespace {

using telemetry::FrontendStat;
using testing::HasSubstr;
using testing::StartsWith;

struct RespClient {
  Front front;
  RespDesk desk;
  RespSession session{front.service, desk, 7};
  Line line{front, session};

  std::string say(const Words& words) { return line.say(encoded(words)); }
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
  EXPECT_EQ(client.say({"CL.THROTTLE", "alice", "1", "30", "60"}),
            "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:2\r\n");
  EXPECT_EQ(client.say({"cl.throttle", "alice", "1", "30", "60"}),
            "*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:4\r\n");
  EXPECT_EQ(client.say({"CL.THROTTLE", "alice", "1", "30", "60"}),
            "*5\r\n:1\r\n:2\r\n:0\r\n:2\r\n:4\r\n");
  client.front.clock.advance(Millis(1999));
  EXPECT_EQ(client.say({"CL.THROTTLE", "alice", "1", "30", "60"}),
            "*5\r\n:1\r\n:2\r\n:0\r\n:1\r\n:3\r\n");
  client.front.clock.advance(Millis(1));
  EXPECT_EQ(client.say({"CL.THROTTLE", "alice", "1", "30", "60"}),
            "*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:4\r\n");
  EXPECT_EQ(client.say({"CL.THROTTLE", "bob", "1", "30", "60", "3"}),
            "*5\r\n:1\r\n:2\r\n:2\r\n:-1\r\n:0\r\n");
}

TEST(RespSession, AnswersALimitInBothVersionsOfTheProtocol) {
  RespClient client;
  EXPECT_EQ(client.say({"WEIR.LIMIT", "api", "alice", "2", "60000"}),
            "*12\r\n$7\r\nsuccess\r\n:1\r\n$5\r\nlimit\r\n:2\r\n$9\r\nremaining\r\n:1\r\n"
            "$5\r\nreset\r\n:1699999260000\r\n$11\r\nretry_after\r\n:-1\r\n$5\r\nbasis\r\n"
            "$5\r\nlocal\r\n");
  EXPECT_EQ(client.say({"HELLO", "3"}), hello(3));
  EXPECT_EQ(client.say({"WEIR.LIMIT", "api", "alice", "2", "60000", "ALGORITHM", "fixed_window"}),
            "%6\r\n$7\r\nsuccess\r\n#t\r\n$5\r\nlimit\r\n:2\r\n$9\r\nremaining\r\n:0\r\n"
            "$5\r\nreset\r\n:1699999260000\r\n$11\r\nretry_after\r\n:-1\r\n$5\r\nbasis\r\n"
            "$5\r\nlocal\r\n");
  EXPECT_EQ(
      client.say({"WEIR.LIMIT", "api", "alice", "2", "60000", "ALGORITHM", "fixed_window"}),
      resp_answer(3, {.success = false, .limit = 2, .reset = kMinuteEnd, .retry_after = 60'000}));
}

TEST(RespSession, PeeksWithoutConsuming) {
  RespClient client;
  const Expected untouched{.limit = 5, .remaining = 5, .reset = kMinuteEnd};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.say({"WEIR.PEEK", "api", "alice", "5", "60000"}), resp_answer(2, untouched));
  }
}

TEST(RespSession, AdmitsABatchWholeOrNotAtAll) {
  RespClient client;
  const Words batch{"WEIR.MULTI", "ITEM", "api", "alice", "5", "60000", "COST",
                    "3",          "ITEM", "api", "all",   "9", "60000"};
  for (const int protocol : {2, 3}) {
    ASSERT_EQ(client.say({"HELLO", std::to_string(protocol)}), hello(protocol));
    const bool first = protocol == 2;
    const std::string head = (first ? "*4\r\n" : "%2\r\n") + bulk("success") +
                             (first ? ":1\r\n" : "#f\r\n") + bulk("limits") + "*2\r\n";
    const std::string all = client.say(batch);
    EXPECT_THAT(all, StartsWith(head));
    if (first) {
      EXPECT_EQ(all, head + resp_answer(2, {.limit = 5, .remaining = 2, .reset = kMinuteEnd}) +
                         resp_answer(2, {.limit = 9, .remaining = 8, .reset = kMinuteEnd}));
    }
  }
  // Of the second, which was refused, what would have passed alone was not admitted.
  const auto& decisions = client.front.service.resp.decisions;
  EXPECT_EQ(decisions.total(telemetry::decided(Outcome::kAdmitted, Basis::kLocal)), 2u);
  EXPECT_EQ(decisions.total(telemetry::decided(Outcome::kDenied, Basis::kLocal)), 2u);
  EXPECT_EQ(client.say({"WEIR.PEEK", "api", "all", "9", "60000"}),
            resp_answer(3, {.limit = 9, .remaining = 8, .reset = kMinuteEnd}));
}

TEST(RespSession, TellsAComplaintOfTheLimiterAsAnError) {
  RespClient client;
  EXPECT_EQ(client.say({"WEIR.LIMIT", "api", "alice", "5", "60000", "BURST", "9"}),
            "-ERR burst is 9, but sliding_window has none: leave burst out, or choose gcra or "
            "token_bucket\r\n");
  EXPECT_THAT(client.say({"WEIR.MULTI", "ITEM", "a", "b", "5", "60000", "BURST", "9"}),
              StartsWith("-ERR "));
  EXPECT_EQ(client.line.next, Next::kRead);
  EXPECT_EQ(client.front.service.resp.stats.total(FrontendStat::kBad), 2u);
}

TEST(RespSession, SaysGoodMorning) {
  RespClient client;
  EXPECT_EQ(client.say({"HELLO"}), hello(2));
  EXPECT_EQ(client.say({"hello", "3", "setname", "me"}), hello(3));
  EXPECT_EQ(client.say({"CLIENT", "GETNAME"}), bulk("me"));
  EXPECT_EQ(client.say({"HELLO", "4"}), "-NOPROTO unsupported protocol version\r\n");
  EXPECT_EQ(client.say({"HELLO", "33"}), "-NOPROTO unsupported protocol version\r\n");
  for (const Words& words : {Words{"HELLO", "2", "SETNAME"}, Words{"HELLO", "2", "AUTH", "x"},
                             Words{"HELLO", "2", "WHAT"}}) {
    EXPECT_EQ(client.say(words), "-ERR syntax error in HELLO\r\n");
  }
  EXPECT_EQ(client.say({"HELLO"}), hello(3));  // what failed changed nothing
}

TEST(RespSession, AnswersTheCommandsThatClientsBeginWith) {
  RespClient client;
  const std::pair<Words, std::string> answers[] = {
      {{"PING"}, "+PONG\r\n"},
      {{"ping", "a b"}, bulk("a b")},
      {{"PING", "a", "b"}, "-ERR wrong number of arguments for 'ping' command\r\n"},
      {{"ECHO", "x\r\ny"}, bulk("x\r\ny")},
      {{"ECHO"}, "-ERR wrong number of arguments for 'echo' command\r\n"},
      {{"SELECT", "0"}, "+OK\r\n"},
      {{"SELECT", "1"},
       "-ERR DB index is out of range: DB is '1', and Weir has only 0; give keys a prefix "
       "instead\r\n"},
      {{"SELECT"}, "-ERR wrong number of arguments for 'select' command\r\n"},
      {{"CLIENT", "GETNAME"}, "$-1\r\n"},
      {{"CLIENT", "SETNAME", "me"}, "+OK\r\n"},
      {{"CLIENT", "GETNAME"}, bulk("me")},
      {{"CLIENT", "SETINFO", "LIB-NAME", "x"}, "+OK\r\n"},
      {{"CLIENT", "NO-EVICT", "on"}, "+OK\r\n"},
      {{"CLIENT", "NO-TOUCH", "on"}, "+OK\r\n"},
      {{"CLIENT", "ID"}, ":7\r\n"},
      {{"COMMAND", "COUNT"}, ":27\r\n"},
      {{"COMMAND", "DOCS", "ping"}, "*0\r\n"},
      {{"COMMAND", "INFO"}, "*0\r\n"},
      {{"COMMAND", "INFO", "CL.Throttle", "get"},
       "*2\r\n*10\r\n" + bulk("cl.throttle") +
           ":-5\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n*-1\r\n"},
      {{"COMMAND", "GETKEYS", "ping"},
       "-ERR unknown subcommand of COMMAND: Weir knows COUNT, DOCS, INFO and LIST\r\n"},
      {{"CONFIG", "GET", "save"}, "*2\r\n" + bulk("save") + bulk("")},
      {{"CONFIG", "GET", "appendonly"}, "*2\r\n" + bulk("appendonly") + bulk("no")},
      {{"CONFIG", "GET", "maxmemory"}, "*0\r\n"},
      {{"CONFIG", "SET", "save"},
       "-ERR Weir is configured by flags and a file: see weir serve --help\r\n"},
      {{"RESET"}, "+RESET\r\n"},
      {{"CLIENT", "GETNAME"}, "$-1\r\n"},
      {{"GET", "x"},
       "-ERR unknown command 'GET': Weir knows CL.THROTTLE, WEIR.LIMIT, WEIR.PEEK, "
       "WEIR.MULTI and WEIR.RESET\r\n"},
      {{"a\r\nb"},
       "-ERR unknown command 'a  b': Weir knows CL.THROTTLE, WEIR.LIMIT, WEIR.PEEK, "
       "WEIR.MULTI and WEIR.RESET\r\n"},
  };
  for (const auto& [words, expected] : answers) EXPECT_EQ(client.say(words), expected) << words[0];
  for (const Words& words :
       {Words{"CLIENT"}, Words{"CLIENT", "KILL"}, Words{"CLIENT", "SETNAME"}}) {
    EXPECT_EQ(client.say(words),
              "-ERR unknown subcommand of CLIENT: Weir knows SETNAME, GETNAME, SETINFO and ID\r\n");
  }
}

TEST(RespSession, SaysNothingAndMapsInTheThirdVersionsOwnWords) {
  RespClient client;
  ASSERT_EQ(client.say({"HELLO", "3"}), hello(3));
  EXPECT_EQ(client.say({"CLIENT", "GETNAME"}), "_\r\n");
  EXPECT_EQ(client.say({"COMMAND", "DOCS"}), "%0\r\n");
  EXPECT_EQ(client.say({"CONFIG", "GET", "save"}), "%1\r\n" + bulk("save") + bulk(""));
  EXPECT_EQ(client.say({"RESET"}), "+RESET\r\n");
  EXPECT_EQ(client.say({"CLIENT", "GETNAME"}), "$-1\r\n");
}

TEST(RespSession, ListsItsCommandsWithTheirArity) {
  RespClient client;
  const std::string all = client.say({"COMMAND"});
  EXPECT_THAT(all, StartsWith("*27\r\n*10\r\n" + bulk("cl.throttle") +
                              ":-5\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"));
  EXPECT_THAT(all, HasSubstr(bulk("quit") + ":1\r\n*1\r\n+fast\r\n:0\r\n:0\r\n:0\r\n"));
  EXPECT_THAT(all, HasSubstr(bulk("del") + ":-2\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:-1\r\n:1\r\n"));
  EXPECT_THAT(client.say({"COMMAND", "LIST"}), StartsWith("*27\r\n" + bulk("cl.throttle")));
}

TEST(RespSession, TellsAboutItselfInInfo) {
  RespClient client;
  client.front.clock.advance(Millis(61'999));
  client.say({"CL.THROTTLE", "alice", "0", "1", "60"});
  client.say({"CL.THROTTLE", "alice", "0", "1", "60"});
  EXPECT_EQ(client.say({"INFO"}),
            bulk("# Server\r\nweir_version:" WEIR_VERSION
                 "\r\nredis_mode:standalone\r\nregion:here\r\nnode:node-1\r\n"
                 "uptime_in_seconds:61\r\n\r\n# Replication\r\nrole:master\r\n\r\n"
                 "# Cluster\r\ncluster_enabled:0\r\n\r\n"
                 "# Decisions\r\nadmitted:1\r\ndenied:1\r\ndegraded:0\r\ncells:1\r\n"));
}

TEST(RespSession, QuitsAndAnswersNothingBehindIt) {
  RespClient client;
  EXPECT_EQ(client.line.say("PING\r\nQUIT\r\nPING\r\n"), "+PONG\r\n+OK\r\n");
  EXPECT_EQ(client.line.next, Next::kClose);
}

TEST(RespSession, AnswersWhatCameBeforeABrokenRequestAndCloses) {
  RespClient client;
  EXPECT_EQ(client.line.say("CL.THROTTLE alice 1 30 60\r\n*x\r\nPING\r\n"),
            "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:2\r\n"
            "-ERR Protocol error: invalid multibulk length\r\n");
  EXPECT_EQ(client.line.next, Next::kClose);
}

TEST(RespSession, AnswersInTheOrderAskedWhenDecisionsAndOthersMix) {
  RespClient client;
  const Words limit{"WEIR.LIMIT", "api", "alice", "9", "60000"};
  const auto left = [](int remaining) {
    return resp_answer(2, {.limit = 9, .remaining = remaining, .reset = kMinuteEnd});
  };
  EXPECT_EQ(client.line.say(encoded(limit) + encoded(limit) + encoded({"PING"}) + encoded(limit) +
                            encoded({"WEIR.LIMIT"}) + encoded(limit) +
                            encoded({"WEIR.MULTI", "ITEM", "api", "alice", "9", "60000"}) +
                            encoded(limit) + encoded({"CL.THROTTLE", "bob", "1", "30", "60"})),
            left(8) + left(7) + "+PONG\r\n" + left(6) +
                "-ERR an item needs namespace identifier limit duration_ms\r\n" + left(5) +
                "*4\r\n" + bulk("success") + ":1\r\n" + bulk("limits") + "*1\r\n" + left(4) +
                left(3) + "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:2\r\n");
}

TEST(RespSession, SpeaksTheVersionThatHeldWhenEachWasAsked) {
  RespClient client;
  const std::string limit = encoded({"WEIR.PEEK", "api", "alice", "9", "60000"});
  const Expected is{.limit = 9, .remaining = 9, .reset = kMinuteEnd};
  EXPECT_EQ(client.line.say(limit + encoded({"HELLO", "3"}) + limit),
            resp_answer(2, is) + hello(3) + resp_answer(3, is));
}

TEST(RespSession, DecidesMoreThanItGathersAtATime) {
  for (const size_t count :
       {RespDesk::kGroup - 1, RespDesk::kGroup, RespDesk::kGroup + 1, 3 * RespDesk::kGroup + 5}) {
    RespClient client;
    std::string asked;
    std::string expected;
    for (size_t i = 0; i < count; ++i) {
      asked += encoded({"WEIR.LIMIT", "api", "alice", "1000", "60000"});
      expected += resp_answer(
          2, {.limit = 1000, .remaining = static_cast<int>(999 - i), .reset = kMinuteEnd});
    }
    EXPECT_EQ(client.line.say(asked), expected);
    EXPECT_EQ(client.front.service.resp.stats.total(FrontendStat::kRequests), count);
    EXPECT_EQ(client.front.service.resp.decisions.total(
                  telemetry::decided(Outcome::kAdmitted, Basis::kLocal)),
              count);
  }
}

TEST(RespSession, PausesWhenEnoughAnswersWaitToBeSentAndLosesNone) {
  RespClient client;
  const std::string word(60'000, 'x');
  std::string asked;
  std::string expected;
  for (int i = 0; i < 10; ++i) {
    asked += encoded({"ECHO", word});
    expected += bulk(word);
  }
  client.line.in.append(asked);
  EXPECT_EQ(client.session.take(client.front.clock.now(), client.line.in, client.line.out),
            Next::kAgain);
  EXPECT_GT(client.line.out.size(), kMaxUnsent);
  EXPECT_LT(client.line.out.size(), kMaxUnsent + word.size() + 100);
  EXPECT_EQ(client.line.say(""), expected);
}

TEST(RespSession, WantsAKeyBeforeItAnswersWhereKeysAreWanted) {
  RespClient client;
  client.front.service.resp_keys = Keys::kWanted;
  for (const Words& words :
       {Words{"PING"}, Words{"CL.THROTTLE", "alice", "1", "30", "60"},
        Words{"WEIR.LIMIT", "a", "b", "1", "100"}, Words{"WEIR.PEEK", "a", "b", "1", "100"},
        Words{"WEIR.MULTI", "ITEM", "a", "b", "1", "100"}, Words{"INFO"}, Words{"COMMAND"},
        Words{"GET", "x"}, Words{"RESET"}}) {
    EXPECT_EQ(client.say(words), "-NOAUTH Authentication required.\r\n") << words[0];
  }
  EXPECT_EQ(client.front.limiter.stats().admitted, 0u);
  EXPECT_EQ(client.say({"HELLO", "3"}),
            "-NOAUTH HELLO must be called with AUTH: HELLO 3 AUTH default <root key>\r\n");
  EXPECT_EQ(client.say({"AUTH", "wrong"}), "-WRONGPASS invalid root key\r\n");
  EXPECT_EQ(client.say({"HELLO", "3", "AUTH", "default", "wrong"}),
            "-WRONGPASS invalid root key\r\n");
  EXPECT_EQ(client.say({"AUTH"}), "-ERR wrong number of arguments for 'auth' command\r\n");
  EXPECT_EQ(client.say({"PING"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(client.say({"AUTH", std::string(kKey)}), "+OK\r\n");
  EXPECT_EQ(client.say({"PING"}), "+PONG\r\n");
  EXPECT_EQ(client.say({"RESET"}), "+RESET\r\n");
  EXPECT_EQ(client.say({"PING"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(client.say({"AUTH", "default", std::string(kKey)}), "+OK\r\n");
  EXPECT_EQ(client.say({"PING"}), "+PONG\r\n");
}

TEST(RespSession, HoldsLittleOfWhatAStrangerSends) {
  Front front;
  front.service.resp_keys = Keys::kWanted;
  RespDesk desk;
  RespSession session(front.service, desk, 7);
  Line line{front, session};
  EXPECT_EQ(session.most_unread(), kMaxStrangerBytes);
  EXPECT_EQ(line.say("*2\r\n$4\r\nECHO\r\n$60000\r\n"), "");
  EXPECT_EQ(line.say(std::string(kMaxStrangerBytes, 'x')),
            "-ERR Protocol error: more than 16384 bytes before authentication\r\n");
  EXPECT_EQ(line.next, Next::kClose);

  RespSession other(front.service, desk, 8);
  Line key{front, other};
  const std::string word(60'000, 'x');
  EXPECT_EQ(key.say(encoded({"AUTH", std::string(kKey)}) + encoded({"ECHO", word})),
            "+OK\r\n$60000\r\n" + word + "\r\n");
  EXPECT_EQ(other.most_unread(), kMaxUnread);
  EXPECT_EQ(other.standing(), Standing::kKeyed);
  key.say(encoded({"RESET"}));
  EXPECT_EQ(other.most_unread(), kMaxStrangerBytes);
}

TEST(RespSession, IsNoStrangerOnceItWasServedWithoutAKey) {
  RespClient client;
  EXPECT_EQ(client.session.most_unread(), kMaxUnread);
  EXPECT_EQ(client.line.say("\r\n*0\r\n*1\r\n$4\r\nPI"), "");
  EXPECT_EQ(client.session.standing(), Standing::kStranger);
  EXPECT_EQ(client.line.say("NG\r\n"), "+PONG\r\n");
  EXPECT_EQ(client.session.standing(), Standing::kServed);
}

TEST(RespSession, KeepsTheAnswerToAWrongKeyBackAndCountsWhy) {
  RespClient client;
  client.front.service.resp_keys = Keys::kWanted;
  Bytes& in = client.line.in;
  Bytes& out = client.line.out;
  const auto take = [&] { return client.session.take(client.front.clock.now(), in, out); };
  in.append(encoded({"AUTH", "wrong"}) + encoded({"HELLO", "3", "AUTH", "x", "wrong"}) +
            encoded({"PING"}));
  EXPECT_EQ(take(), Next::kDelay);
  EXPECT_EQ(client.line.received(), "-WRONGPASS invalid root key\r\n");
  EXPECT_EQ(take(), Next::kDelay);
  EXPECT_EQ(client.line.received(), "-WRONGPASS invalid root key\r\n");
  EXPECT_EQ(take(), Next::kRead);
  EXPECT_EQ(client.line.received(), "-NOAUTH Authentication required.\r\n");
  const auto& stats = client.front.service.resp.stats;
  EXPECT_EQ(stats.total(telemetry::FrontendStat::kWrongKey), 2u);
  EXPECT_EQ(stats.total(telemetry::FrontendStat::kMissingKey), 1u);
}

TEST(RespSession, ClosesWithoutAnAnswerOnWhatIsHttp) {
  const std::string command = "CL.THROTTLE victim 1 1 60\r\n";
  for (const std::string first :
       {"POST / HTTP/1.1\r\n", "post /x HTTP/1.1\r\n", "GET / HTTP/1.1\r\n", "Host: weir\r\n",
        "OPTIONS * HTTP/1.1\r\n", "PUT / HTTP/1.0\r\n", "*1\r\n$4\r\nPOST\r\n"}) {
    for (const Keys keys : {Keys::kNotWanted, Keys::kWanted}) {
      RespClient client;
      client.front.service.resp_keys = keys;
      EXPECT_EQ(client.line.say(first + "Host: weir\r\n\r\n" + command), "") << first;
      EXPECT_EQ(client.line.next, Next::kClose);
      EXPECT_EQ(client.front.limiter.stats().admitted, 0u);
      EXPECT_EQ(client.front.service.resp.stats.total(telemetry::FrontendStat::kCrossProtocol), 1u);
    }
  }
  RespClient client;
  EXPECT_EQ(client.say({"ECHO", "HTTP/1.1"}), "$8\r\nHTTP/1.1\r\n");
}

TEST(RespSession, TakesTheKeyWithTheGreeting) {
  RespClient client;
  client.front.service.resp_keys = Keys::kWanted;
  EXPECT_EQ(client.say({"HELLO", "3", "AUTH", "default", std::string(kKey)}), hello(3));
  EXPECT_EQ(client.say({"PING"}), "+PONG\r\n");
}

TEST(RespSession, QuitsForThoseWithoutAKey) {
  RespClient client;
  client.front.service.resp_keys = Keys::kWanted;
  EXPECT_EQ(client.say({"QUIT"}), "+OK\r\n");
  EXPECT_EQ(client.line.next, Next::kClose);
}

TEST(RespSession, AnswersTheSameWhereverWhatItHearsIsSplit) {
  const std::string asked =
      "PING\r\n\r\n" + encoded({"WEIR.LIMIT", "api", "alice", "3", "60000"}) +
      "CL.THROTTLE bob 1 30 60\r\n" + encoded({"HELLO", "3"}) + encoded({}) +
      encoded({"WEIR.LIMIT", "api", "alice", "3", "60000"}) + "WEIR.LIMIT api\r\n" +
      encoded({"WEIR.MULTI", "ITEM", "a", "b", "1", "100", "ITEM", "a", "b", "1", "100"}) +
      "*1\r\n$4\r\nQUIT\r\nPING\r\n";
  RespClient whole;
  const std::string expected = whole.line.say(asked);
  ASSERT_EQ(whole.line.next, Next::kClose);
  for (size_t cut = 1; cut < asked.size(); ++cut) {
    RespClient split;
    std::string received = split.line.say(asked.substr(0, cut));
    if (split.line.next != Next::kClose) received += split.line.say(asked.substr(cut));
    EXPECT_EQ(received, expected) << cut;
  }
  for (const size_t size : {1, 2, 3, 7, 64}) {
    RespClient slow;
    EXPECT_EQ(slow.line.say_slowly(asked, size), expected) << size;
  }
}

}  // namespace
}  // namespace weir::frontends
