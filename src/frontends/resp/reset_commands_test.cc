#include "frontends/resp/reset_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "frontends/fixture_test.h"
#include "frontends/resp/encoded_test.h"
#include "frontends/resp/resp_session.h"

namespace weir::frontends {
namespace {

using testing::StartsWith;

struct ResetClient {
  Fixture fixture;
  RespScratch scratch;
  RespSession session{fixture.service, scratch, 7};
  TestConnection line{fixture, session};

  std::string send(const Words& words) { return line.send(encoded(words)); }
  // The remaining units after one more request.
  char remaining(const std::string& key) { return send({"CL.THROTTLE", key, "4", "5", "60"})[13]; }
};

TEST(Del, ResetsTheCountOfAKey) {
  ResetClient client;
  EXPECT_EQ(client.remaining("alice"), '4');
  EXPECT_EQ(client.remaining("alice"), '3');
  EXPECT_EQ(client.remaining("bob"), '4');
  EXPECT_EQ(client.send({"DEL", "alice"}), ":1\r\n");
  EXPECT_EQ(client.remaining("alice"), '4');
  EXPECT_EQ(client.remaining("bob"), '3');
  EXPECT_EQ(client.send({"UNLINK", "alice", "nobody", "bob"}), ":2\r\n");
  EXPECT_EQ(client.send({"DEL", "alice"}), ":0\r\n");
}

TEST(Del, DoesNotCountAFullyRecoveredKey) {
  ResetClient client;
  EXPECT_EQ(client.remaining("alice"), '4');
  client.fixture.clock.advance(Millis(11'999));
  EXPECT_EQ(client.send({"DEL", "alice"}), ":1\r\n");
  EXPECT_EQ(client.remaining("alice"), '4');
  client.fixture.clock.advance(Millis(12'000));
  EXPECT_EQ(client.send({"DEL", "alice"}), ":0\r\n");
}

TEST(Del, ResetsAKeyOfAnyParameters) {
  ResetClient client;
  client.send({"CL.THROTTLE", "alice", "4", "5", "60"});
  client.send({"CL.THROTTLE", "alice", "4", "5", "315619200"});
  EXPECT_EQ(client.send({"DEL", "alice"}), ":1\r\n");
}

TEST(Del, RefusesAnInvalidKeyAndResetsNothing) {
  ResetClient client;
  EXPECT_EQ(client.remaining("alice"), '4');
  EXPECT_EQ(client.send({"DEL", "alice", ""}), "-ERR key has 0 bytes: it must have 1 to 65536\r\n");
  EXPECT_EQ(client.send({"DEL"}), "-ERR wrong number of arguments for 'del' command\r\n");
  EXPECT_EQ(client.send({"UNLINK"}), "-ERR wrong number of arguments for 'unlink' command\r\n");
  EXPECT_EQ(client.remaining("alice"), '3');
}

TEST(LongKey, IsCountedByItsHashAndResetAlone) {
  ResetClient client;
  const std::string key(65'536, 'k');
  const std::string other = key.substr(1) + "x";
  EXPECT_EQ(client.remaining(key), '4');
  EXPECT_EQ(client.remaining(key), '3');
  EXPECT_EQ(client.remaining(other), '4');
  EXPECT_EQ(client.remaining(std::string(513, 'k')), '4');
  EXPECT_EQ(client.remaining(std::string(512, 'k')), '4');
  // The hash itself is another key.
  const rules::KeyHash hash = rules::hash_of(key);
  EXPECT_EQ(client.remaining(std::string(hash.begin(), hash.end())), '4');
  EXPECT_EQ(client.send({"DEL", key}), ":1\r\n");
  EXPECT_EQ(client.remaining(key), '4');
  EXPECT_EQ(client.remaining(other), '3');
}

TEST(LongKey, IsDistinctFromOthersOfTheSamePipeline) {
  ResetClient client;
  std::string request;
  std::string expected;
  for (int i = 0; i < 40; ++i) {
    const std::string key = std::string(600, 'k') + std::to_string(i % 20);
    request += encoded({"CL.THROTTLE", key, "4", "5", "60"});
    expected += i < 20 ? "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:12\r\n"
                       : "*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:24\r\n";
  }
  EXPECT_EQ(client.line.send(request), expected);
}

TEST(Reset, ResetsTheTupleOfItsAlgorithmAndDuration) {
  for (const char* algorithm : {"gcra", "token_bucket", "sliding_window_strict", "sliding_log",
                                "sliding_window", "fixed_window"}) {
    ResetClient client;
    const auto remaining = [&](const std::string& duration) {
      const std::string answer =
          client.send({"WEIR.LIMIT", "api", "alice", "5", duration, "ALGORITHM", algorithm});
      const std::string name = "remaining\r\n:";
      return answer[answer.find(name) + name.size()];
    };
    EXPECT_EQ(remaining("60000"), '4');
    EXPECT_EQ(remaining("60000"), '3');
    EXPECT_EQ(remaining("30000"), '4');
    EXPECT_EQ(client.send({"WEIR.RESET", "api", "alice", "60000", "ALGORITHM", algorithm}),
              ":1\r\n");
    EXPECT_EQ(client.send({"WEIR.RESET", "api", "bob", "60000", "ALGORITHM", algorithm}), ":0\r\n");
    EXPECT_EQ(remaining("60000"), '4') << algorithm;
    EXPECT_EQ(remaining("30000"), '3') << algorithm;
  }
}

TEST(Reset, NamesTheInvalidArgument) {
  ResetClient client;
  const std::pair<Words, std::string> mistakes[] = {
      {{"WEIR.RESET", "api", "alice"},
       "-ERR wrong number of arguments for 'weir.reset' command: WEIR.RESET namespace identifier "
       "duration_ms [ALGORITHM name]\r\n"},
      {{"WEIR.RESET", "", "alice", "1000"},
       "-ERR namespace has 0 bytes: it must have 1 to 512\r\n"},
      {{"WEIR.RESET", "api", "", "1000"}, "-ERR identifier has 0 bytes: it must have 1 to 512\r\n"},
      {{"WEIR.RESET", "api", "alice", "99"},
       "-ERR duration_ms is '99': it must be a whole number from 100 to 2592000000\r\n"},
      {{"WEIR.RESET", "api", "alice", "1000", "COST", "1"},
       "-ERR 'COST' is not an option: use ALGORITHM\r\n"},
      {{"WEIR.RESET", "api", "alice", "1000", "ALGORITHM", "x"},
       "-ERR ALGORITHM is 'x': it must be sliding_window, sliding_window_strict, fixed_window, "
       "sliding_log, gcra or token_bucket\r\n"},
  };
  for (const auto& [words, expected] : mistakes) EXPECT_EQ(client.send(words), expected);
}

}  // namespace
}  // namespace weir::frontends
