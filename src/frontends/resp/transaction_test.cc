// MULTI, EXEC and DISCARD, as a session answers them.

#include "frontends/resp/transaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <deque>
#include <string>

#include "frontends/front_test.h"
#include "frontends/resp/encoded_test.h"
#include "frontends/resp/resp_session.h"

namespace weir::frontends {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct TransactionClient {
  Front front;
  RespDesk desk;
  RespSession session{front.service, desk, 7};
  Line line{front, session};

  std::string say(const Words& words) { return line.say(encoded(words)); }
  uint64_t admitted() { return front.limiter.stats().admitted; }
};

const Words kThrottleAlice{"CL.THROTTLE", "alice", "1", "30", "60"};

TEST(Transaction, AnswersWhatWasQueuedWithOneArray) {
  TransactionClient client;
  EXPECT_EQ(client.say({"MULTI"}), "+OK\r\n");
  EXPECT_EQ(client.say(kThrottleAlice), "+QUEUED\r\n");
  EXPECT_EQ(client.say({"PING"}), "+QUEUED\r\n");
  EXPECT_EQ(client.say(kThrottleAlice), "+QUEUED\r\n");
  EXPECT_EQ(client.admitted(), 0u);  // nothing runs before EXEC
  EXPECT_EQ(client.say({"EXEC"}),
            "*3\r\n*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:2\r\n+PONG\r\n*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n"
            ":4\r\n");
  EXPECT_EQ(client.admitted(), 2u);
  EXPECT_EQ(client.say({"PING"}), "+PONG\r\n");  // it is over
}

TEST(Transaction, AnswersAnEmptyOneWithAnEmptyArray) {
  TransactionClient client;
  EXPECT_EQ(client.line.say("MULTI\r\nEXEC\r\nPING\r\n"), "+OK\r\n*0\r\n+PONG\r\n");
}

TEST(Transaction, RunsNothingThatWasDiscarded) {
  TransactionClient client;
  EXPECT_EQ(client.line.say("MULTI\r\nCL.THROTTLE a 1 30 60\r\nDISCARD\r\n"),
            "+OK\r\n+QUEUED\r\n+OK\r\n");
  EXPECT_EQ(client.say({"EXEC"}), "-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(client.admitted(), 0u);
}

TEST(Transaction, RefusesTheWholeAfterACommandThatIsNone) {
  for (const Words& wrong : {Words{"GET", "x"}, Words{"CL.THROTTLE", "a"}, Words{"ECHO"}}) {
    TransactionClient client;
    EXPECT_EQ(client.say({"MULTI"}), "+OK\r\n");
    EXPECT_EQ(client.say(kThrottleAlice), "+QUEUED\r\n");
    EXPECT_THAT(client.say(wrong), StartsWith("-ERR "));
    EXPECT_EQ(client.say(kThrottleAlice), "+QUEUED\r\n");
    EXPECT_EQ(client.say({"EXEC"}),
              "-EXECABORT Transaction discarded because of previous errors.\r\n");
    EXPECT_EQ(client.admitted(), 0u);
    EXPECT_EQ(client.say({"EXEC"}), "-ERR EXEC without MULTI\r\n");
  }
}

TEST(Transaction, TellsAMistakeInAnArgumentInItsPlaceInTheArray) {
  TransactionClient client;
  const std::string received =
      client.line.say("MULTI\r\nCL.THROTTLE a x 30 60\r\nCL.THROTTLE a 1 30 60\r\nEXEC\r\n");
  EXPECT_THAT(received, StartsWith("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n-ERR max_burst is 'x'"));
  EXPECT_THAT(received, HasSubstr("\r\n*5\r\n:0\r\n"));
  EXPECT_EQ(client.admitted(), 1u);
}

TEST(Transaction, RefusesToBeNestedAndGoesOn) {
  TransactionClient client;
  EXPECT_EQ(client.line.say("MULTI\r\nMULTI\r\nPING\r\nEXEC\r\n"),
            "+OK\r\n-ERR MULTI calls can not be nested\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
  EXPECT_EQ(client.say({"DISCARD"}), "-ERR DISCARD without MULTI\r\n");
  EXPECT_EQ(client.say({"MULTI", "x"}), "-ERR wrong number of arguments for 'multi' command\r\n");
}

TEST(Transaction, IsForgottenByResetAndNotWaitedForByQuit) {
  TransactionClient client;
  EXPECT_EQ(client.line.say("MULTI\r\nCL.THROTTLE a 1 30 60\r\nRESET\r\nPING\r\n"),
            "+OK\r\n+QUEUED\r\n+RESET\r\n+PONG\r\n");
  EXPECT_EQ(client.line.say("MULTI\r\nCL.THROTTLE a 1 30 60\r\nQUIT\r\n"),
            "+OK\r\n+QUEUED\r\n+OK\r\n");
  EXPECT_EQ(client.line.next, Next::kClose);
  EXPECT_EQ(client.admitted(), 0u);
}

TEST(Transaction, WantsAKeyFirstWhereKeysAreWanted) {
  TransactionClient client;
  client.front.service.resp_keys = Keys::kWanted;
  EXPECT_EQ(client.say({"MULTI"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(client.say({"EXEC"}), "-NOAUTH Authentication required.\r\n");
}

TEST(Transaction, KeepsNoMoreThanItsBound) {
  TransactionClient client;
  EXPECT_EQ(client.say({"MULTI"}), "+OK\r\n");
  const Words echo{"ECHO", std::string(60'000, 'x')};
  const size_t fit = kMaxQueuedBytes / encoded(echo).size();
  for (size_t i = 0; i < fit; ++i) ASSERT_EQ(client.say(echo), "+QUEUED\r\n");
  EXPECT_EQ(client.say(echo),
            "-ERR more than 1048576 bytes between MULTI and EXEC: send less at a time, or a "
            "pipeline without MULTI\r\n");
  EXPECT_THAT(client.say({"EXEC"}), StartsWith("-EXECABORT"));
}

TEST(Transaction, PausesWhenEnoughAnswersWaitToBeSentAndLosesNone) {
  TransactionClient client;
  const std::string word(60'000, 'x');
  ASSERT_EQ(client.say({"MULTI"}), "+OK\r\n");
  std::string expected = "*10\r\n";
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(client.say({"ECHO", word}), "+QUEUED\r\n");
    expected += "$60000\r\n" + word + "\r\n";
  }
  client.line.in.append(encoded({"EXEC"}) + encoded({"PING"}));
  EXPECT_EQ(client.session.take(client.front.clock.now(), client.line.in, client.line.out),
            Next::kAgain);
  EXPECT_LT(client.line.out.size(), kMaxUnsent + word.size() + 100);
  EXPECT_EQ(client.line.say(""), expected + "+PONG\r\n");
}

// A decider that answers later, and an executor for it.
class LateDecider final : public Decider {
 public:
  explicit LateDecider(Limiter& limiter) : limiter_(limiter) {}
  void check_each(Instant now, std::span<const Request> requests,
                  std::span<Result<Verdict>> verdicts) override {
    limiter_.check_each_local(now, requests, verdicts);
  }
  [[nodiscard]] Result<BatchVerdict> check_all(Instant now,
                                               std::span<const Request> requests) override {
    return limiter_.check_all_local(now, requests);
  }
  [[nodiscard]] Result<bool> reset(Instant now, const Request& request) override {
    return limiter_.reset(now, request);
  }
  [[nodiscard]] bool may_wait() const override { return true; }
  [[nodiscard]] bool check_each_async(Instant now, std::span<const Request> requests,
                                      std::span<Result<Verdict>> verdicts, Executor&,
                                      Task done) override {
    check_each(now, requests, verdicts);
    waiting.push_back(std::move(done));
    return false;
  }

  std::deque<Task> waiting;

 private:
  Limiter& limiter_;
};

class NoExecutor final : public Executor {
 public:
  void post(Task) override {}
  void post_at(MonoTime, Task) override {}
};

TEST(Transaction, GoesOnWhereItStoodWhenAnAnswerHadToWait) {
  Front front;
  LateDecider late(front.limiter);
  Service service{.clock = front.clock,
                  .decider = late,
                  .limiter = front.limiter,
                  .keys = front.keys,
                  .region = "here",
                  .node = "node-1"};
  RespDesk desk;
  RespSession session(service, desk, 7);
  NoExecutor home;
  session.settle(home, [] {});
  Line line{front, session};
  std::string received = line.say(
      "MULTI\r\nCL.THROTTLE a 9 10 60\r\nPING\r\nCL.THROTTLE a 9 10 60\r\nEXEC\r\nECHO x\r\n");
  EXPECT_EQ(line.next, Next::kWait);
  int turns = 0;
  for (; line.next == Next::kWait && turns < 10; ++turns) {
    ASSERT_EQ(late.waiting.size(), 1u);
    late.waiting.front()();
    late.waiting.pop_front();
    received += line.say("");
  }
  EXPECT_EQ(turns, 2);
  EXPECT_EQ(received,
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:6\r\n"
            "+PONG\r\n*5\r\n:0\r\n:10\r\n:8\r\n:-1\r\n:12\r\n$1\r\nx\r\n");
}

// What a transaction answers is what a pipeline of the same commands would.
RC_GTEST_PROP(Transaction, AnswersAsAPipelineWould, ()) {
  static const std::vector<Words> kCommands{
      {"CL.THROTTLE", "a", "1", "30", "60"},
      {"CL.THROTTLE", "b", "5", "30", "60", "2"},
      {"CL.THROTTLE", "a", "x", "30", "60"},
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
  const std::string answers = plain.line.say(pipeline);
  TransactionClient wrapped;
  const std::string received =
      wrapped.line.say(encoded({"MULTI"}) + pipeline + encoded({"EXEC"}) + encoded({"PING"}));
  RC_ASSERT(received ==
            queued + "*" + std::to_string(commands.size()) + "\r\n" + answers + "+PONG\r\n");
}

}  // namespace
}  // namespace weir::frontends
