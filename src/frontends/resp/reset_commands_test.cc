#include "frontends/resp/reset_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "catalog/changes.h"
#include "frontends/fixture_test.h"
#include "frontends/memory_catalog_test.h"
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

// A limiter that shares its counts with others.
class SharedBackend final : public Backend {
 public:
  explicit SharedBackend(Limiter& limiter) : local_(limiter) {}
  void check_each(Instant now, std::span<const Request> requests,
                  std::span<Result<Verdict>> verdicts) override {
    local_.check_each(now, requests, verdicts);
  }
  Result<BatchVerdict> check_all(Instant now, std::span<const Request> requests) override {
    return local_.check_all(now, requests);
  }
  Result<bool> reset(Instant, const Request&) override {
    return Error{.code = ErrorCode::kShared, .detail = "it is shared", .fix = "wait"};
  }

 private:
  LimiterBackend local_;
};

struct SharedReset : testing::Test {
  MemoryCatalog* database = new MemoryCatalog;  // owned by the catalog
  Fixture fixture{{}, std::unique_ptr<catalog::CatalogStore>(database)};
  SharedBackend shared{fixture.limiter};
  Service service{.clock = fixture.clock,
                  .backend = shared,
                  .limiter = fixture.limiter,
                  .keys = fixture.keys,
                  .catalog = fixture.catalog,
                  .random =
                      [] {
                        static uint64_t last = 0;
                        return ++last * 1000;
                      },
                  .region = "here",
                  .node = "node-1"};
  doubles::ManualExecutor executor{fixture.clock};
  RespScratch scratch;
  RespSession session{service, scratch, 7};
  TestConnection line{fixture, session};
  int wakes = 0;

  void SetUp() override {
    session.bind(executor, [this] { ++wakes; });
    EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  }
  std::string send(const Words& words) { return line.send(encoded(words)); }
  // What arrives once the catalog has written.
  std::string written() {
    (void)fixture.catalog.poll_once();
    executor.run();
    return line.send("");
  }
  char remaining(const std::string& key) { return send({"CL.THROTTLE", key, "4", "5", "60"})[13]; }
  size_t rows(char kind) const {
    size_t count = 0;
    for (const catalog::CatalogRow& row : database->rows) count += row.kind == kind ? 1 : 0;
    return count;
  }
};

TEST_F(SharedReset, GivesTheKeysAnotherIdentityThroughTheCatalog) {
  EXPECT_EQ(remaining("alice"), '4');
  EXPECT_EQ(remaining("alice"), '3');
  EXPECT_EQ(remaining("bob"), '4');
  EXPECT_EQ(send({"DEL", "alice", std::string(600, 'k')}), "");
  EXPECT_EQ(line.next, Next::kWait);
  EXPECT_EQ(written(), ":2\r\n");
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(rows('r'), 2U);
  EXPECT_EQ(remaining("alice"), '4') << "on this connection at once";
  EXPECT_EQ(remaining("alice"), '3');
  EXPECT_EQ(remaining("bob"), '3');
  EXPECT_EQ(send({"UNLINK", "alice"}), "");
  EXPECT_EQ(written(), ":1\r\n");
  EXPECT_EQ(remaining("alice"), '4');
}

TEST_F(SharedReset, ResetsAnIdentifierForAllDurationsAndAlgorithms) {
  const auto left = [&](const std::string& duration) {
    const std::string answer = send({"WEIR.LIMIT", "api", "alice", "5", duration});
    const std::string name = "remaining\r\n:";
    return answer[answer.find(name) + name.size()];
  };
  EXPECT_EQ(left("60000"), '4');
  EXPECT_EQ(left("30000"), '4');
  EXPECT_EQ(send({"WEIR.RESET", "api", "alice", "60000"}), "");
  EXPECT_EQ(written(), ":1\r\n");
  EXPECT_EQ(left("60000"), '4');
  EXPECT_EQ(left("30000"), '4');
}

TEST_F(SharedReset, KeepsTheOrderOfAPipelineAndOfATransaction) {
  const auto throttle = encoded({"CL.THROTTLE", "alice", "4", "5", "60"});
  const std::string pipeline =
      throttle + throttle + encoded({"DEL", "alice"}) + throttle + encoded({"PING"});
  EXPECT_EQ(line.send(pipeline),
            "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:12\r\n*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:24\r\n");
  EXPECT_EQ(written(), ":1\r\n*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:12\r\n+PONG\r\n");
  EXPECT_THAT(line.send(encoded({"MULTI"}) + encoded({"DEL", "alice"}) + throttle +
                        encoded({"EXEC"}) + encoded({"PING"})),
              testing::EndsWith("*2\r\n"));
  EXPECT_EQ(written(), ":1\r\n*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:12\r\n+PONG\r\n");
}

TEST_F(SharedReset, ReportsADatabaseThatIsDownAndResetsNothing) {
  EXPECT_EQ(remaining("alice"), '4');
  (void)fixture.catalog.poll_once();
  database->fails = true;
  EXPECT_EQ(send({"DEL", "alice"}), "");
  EXPECT_EQ(written(), "-TRYAGAIN the database is down: start it\r\n");
  EXPECT_EQ(remaining("alice"), '3');
  database->fails = false;
  EXPECT_EQ(send({"DEL", "alice"}), "");
  EXPECT_EQ(written(), ":1\r\n");
  EXPECT_EQ(remaining("alice"), '4');
}

TEST_F(SharedReset, RefusesAnIdentifierThatIsTooLong) {
  EXPECT_EQ(send({"WEIR.RESET", "api", std::string(465, 'x'), "60000"}),
            "-ERR the identifier has 465 bytes: a shared count can be reset if it has at most "
            "464\r\n");
  EXPECT_EQ(send({"WEIR.RESET", "api", std::string(464, 'x'), "60000"}), "");
  EXPECT_EQ(written(), ":1\r\n");
}

TEST_F(SharedReset, TakesABoundedNumberOfKeys) {
  Words words{"DEL"};
  for (int i = 0; i < 100; ++i) words.push_back("k" + std::to_string(i));
  EXPECT_EQ(send(words), "");
  EXPECT_EQ(written(), ":100\r\n");
  words.push_back("one more");
  EXPECT_EQ(send(words),
            "-ERR more than 100 keys with shared counts: send at most 100 in a command\r\n");
  EXPECT_EQ(rows('r'), 100U);
}

TEST_F(SharedReset, KeepsABoundedNumberOfResets) {
  const catalog::Author author{.actor = "root", .now = fixture.clock.now().wall};
  const auto ns = catalog::new_namespace(catalog::kDefaultWorkspace, "api", author.now);
  std::vector<catalog::CatalogWrite> writes{catalog::set_namespace(author, ns, "namespace.create")};
  for (size_t i = 0; i < catalog::kMaxResets; ++i) {
    writes.push_back(catalog::reset_identifier(author, ns, "x" + std::to_string(i), 7));
  }
  EXPECT_TRUE(database->write(writes));
  EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  EXPECT_THAT(send({"WEIR.RESET", "api", "more", "60000"}),
              StartsWith("-ERR the namespace \"api\" keeps 100000 resets, and at most 100000"));
  EXPECT_EQ(send({"WEIR.RESET", "api", "x7", "60000"}), "");
  EXPECT_EQ(written(), ":1\r\n");
}

TEST_F(SharedReset, NeedsThePermission) {
  const catalog::Author author{.actor = "root", .now = fixture.clock.now().wall};
  const auto use = [&](uint64_t seed, const std::vector<std::string>& permissions) {
    auto key = catalog::create_key(
        author, {.workspace = catalog::kDefaultWorkspace, .name = "k", .permissions = permissions},
        {seed, 1, 1});
    EXPECT_TRUE(database->write({&key.write, 1}));
    EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
    EXPECT_EQ(send({"AUTH", key.secret}), "+OK\r\n");
  };
  EXPECT_EQ(remaining("alice"), '4');
  (void)fixture.catalog.poll_once();
  use(1, {"ratelimit.*.limit"});
  EXPECT_THAT(send({"DEL", "alice"}),
              StartsWith("-NOPERM the key lacks the permission ratelimit."));
  EXPECT_EQ(rows('r'), 0U);
  use(2, {"ratelimit.*.limit", "ratelimit.*.reset"});
  EXPECT_EQ(send({"DEL", "alice"}), "");
  EXPECT_EQ(written(), ":1\r\n");
  database->fails = true;
  EXPECT_EQ(send({"DEL", "alice"}), "");
  EXPECT_EQ(written(), "-TRYAGAIN the catalog does not answer: send it again\r\n");
}

TEST(Reset, OfASharedCountIsAnErrorWithoutACatalog) {
  Fixture fixture;
  SharedBackend shared{fixture.limiter};
  Service service{.clock = fixture.clock,
                  .backend = shared,
                  .limiter = fixture.limiter,
                  .keys = fixture.keys,
                  .catalog = fixture.catalog,
                  .region = "here",
                  .node = "node-1"};
  RespScratch scratch;
  RespSession session{service, scratch, 7};
  TestConnection line{fixture, session};
  EXPECT_EQ(line.send(encoded({"DEL", "alice"})), "-ERR it is shared: wait\r\n");
}

}  // namespace
}  // namespace weir::frontends
