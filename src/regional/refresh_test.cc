// Reads of the origin before a decision: when, how often, and what happens if one fails.

#include "regional/refresh.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "decide/engine.h"
#include "origins/in_process_origin.h"
#include "platform/thread_executor.h"
#include "tests/doubles/manual_clock.h"
#include "tests/doubles/scripted_origin.h"

namespace weir::regional {
namespace {

using decide::Engine;

Request refresh_request(std::string_view identifier, Count cost = 1, Count limit = 10) {
  return {.ns = "api",
          .identifier = identifier,
          .limit = limit,
          .duration = Millis(60'000),
          .cost = cost};
}

class RefreshTest : public ::testing::Test {
 protected:
  // Answers the requests that still wait: a request in flight keeps its engine alive.
  void TearDown() override {
    clock_.advance(Millis(1000));
    executor_.run();
  }

  using Answer = std::shared_ptr<std::optional<Verdict>>;

  Answer ask(const Request& request) {
    auto answer = std::make_shared<std::optional<Verdict>>();
    engine_->check_async(clock_.now(), request, executor_,
                         [answer](const Result<Verdict>& verdict) { *answer = *verdict; });
    return answer;
  }
  // Sends a request and lets the origin answer at once.
  Verdict ask_and_answer(const Request& request, CellTotals totals) {
    const Answer answer = ask(request);
    if (!origin_->reads.empty()) origin_->answer_read(totals);
    executor_.run();
    return **answer;
  }

  doubles::ManualClock clock_;
  doubles::ManualExecutor executor_{clock_};
  std::shared_ptr<doubles::ScriptedOrigin> origin_ = std::make_shared<doubles::ScriptedOrigin>();
  std::shared_ptr<Engine> engine_ =
      Engine::make(clock_, {.origin = origin_, .capacity = 1000, .seed = 1});
};

TEST_F(RefreshTest, ReadsBothCellsOfAColdTupleBeforeItDecides) {
  const Answer answer = ask(refresh_request("alice", 3));
  executor_.run();
  EXPECT_FALSE(answer->has_value());
  ASSERT_EQ(origin_->reads.size(), 1u);
  ASSERT_EQ(origin_->reads[0].cells.size(), 2u);
  EXPECT_EQ(origin_->reads[0].cells[0].cell.sequence, origin_->reads[0].cells[1].cell.sequence + 1);
  origin_->reads[0].reply(std::vector<CellTotals>{{.siblings = 4}, {.siblings = 3}});
  executor_.run();
  ASSERT_TRUE(answer->has_value());
  EXPECT_TRUE((*answer)->admitted());
  EXPECT_EQ((*answer)->basis, Basis::kRefreshed);
  EXPECT_EQ((*answer)->evidence.siblings, 4u);
  EXPECT_EQ((*answer)->evidence.previous, 3u);
  EXPECT_EQ((*answer)->remaining, 0u);
}

TEST_F(RefreshTest, DecidesAtOnceWhileFreshAndReadsAgainAtTheDeadline) {
  ask_and_answer(refresh_request("alice"), {});
  clock_.advance(Millis(4999));
  const Answer fresh = ask(refresh_request("alice"));
  ASSERT_TRUE(fresh->has_value());  // before the executor ran
  EXPECT_EQ((*fresh)->basis, Basis::kLocal);
  clock_.advance(Millis(1));
  const Answer stale = ask(refresh_request("alice"));
  EXPECT_FALSE(stale->has_value());
  EXPECT_EQ(origin_->reads.size(), 1u);
}

TEST_F(RefreshTest, TrustsAShortWindowForATenthOfIt) {
  Request request = refresh_request("alice");
  request.duration = Millis(1000);
  ask_and_answer(request, {});
  clock_.advance(Millis(99));
  EXPECT_TRUE(ask(request)->has_value());
  clock_.advance(Millis(1));
  EXPECT_FALSE(ask(request)->has_value());
}

// At their observed rate, the siblings could use the remaining limit before a tenth of the window
// has passed.
TEST_F(RefreshTest, ReadsEarlierIfTheSiblingsCouldHaveUsedTheRemainder) {
  clock_.advance(Millis(30'000));
  // 60 in this window and half of 60 in the last leave 10. They used 60 in 30 s, so half of the
  // remainder takes 2.5 s.
  ask_and_answer(refresh_request("alice", 1, 100), {.siblings = 60});
  clock_.advance(Millis(2'499));
  EXPECT_TRUE(ask(refresh_request("alice", 0, 100))->has_value());
  clock_.advance(Millis(1));
  EXPECT_FALSE(ask(refresh_request("alice", 0, 100))->has_value());
}

TEST_F(RefreshTest, UsesTheLastGrowthOfTheSiblingsIfThatIsFaster) {
  clock_.advance(Millis(50'000));
  ask_and_answer(refresh_request("alice", 1, 1000), {});
  clock_.advance(Millis(5'000));
  ask_and_answer(refresh_request("alice", 1, 1000), {.siblings = 900});  // in 5 s, not in 55
  const auto reads_after = [&](Millis time) {
    clock_.advance(time);
    return !ask(refresh_request("alice", 0, 1000))->has_value();
  };
  // 75 of them are carried over and 24 remain: half of that is used in 66 ms.
  EXPECT_FALSE(reads_after(Millis(60)));
  EXPECT_TRUE(reads_after(Millis(10)));
}

TEST_F(RefreshTest, TrustsAFixedWindowFromItsStartIfTheLastOneWasRead) {
  Request request = refresh_request("alice", 1, 100);
  request.algorithm = Algorithm::kFixedWindow;
  clock_.advance(Millis(30'000));
  ask_and_answer(request, {.siblings = 10});
  clock_.advance(Millis(30'000));  // stale, but this window is unused yet
  EXPECT_EQ((*ask(request))->basis, Basis::kLocal);
  clock_.advance(Millis(5'000));
  EXPECT_FALSE(ask(request)->has_value());
}

// Its words are too old to store the counts read, which would be lost and called fresh.
TEST_F(RefreshTest, KeepsTheCountsReadForATupleThatWasIdleForLong) {
  for (const Count cost : {0, 1}) {
    const std::string identifier = "alice-" + std::to_string(cost);
    ask_and_answer(refresh_request(identifier), {});
    clock_.advance(Millis(60'000) * (int64_t{1} << 18));
    const Verdict verdict = ask_and_answer(refresh_request(identifier, cost), {.siblings = 4});
    EXPECT_EQ(verdict.basis, Basis::kRefreshed);
    EXPECT_EQ(verdict.evidence.siblings, 4U);
  }
}

// The same for a tuple of a future time, after the clock was set back.
TEST_F(RefreshTest, KeepsTheCountsReadForATupleUsedWhileTheClockWasAhead) {
  for (const Count cost : {0, 1}) {
    const std::string identifier = "bob-" + std::to_string(cost);
    clock_.step_wall(Millis(3'600'000));
    ask_and_answer(refresh_request(identifier), {});
    clock_.step_wall(Millis(-3'600'000));
    const Verdict verdict = ask_and_answer(refresh_request(identifier, cost), {.siblings = 4});
    EXPECT_EQ(verdict.basis, Basis::kRefreshed);
    EXPECT_EQ(verdict.evidence.siblings, 4U);
  }
}

TEST_F(RefreshTest, DoesNotWaitWhileTheOriginIsUnreachable) {
  origin_->reachability = Reach::kNone;
  const Answer answer = ask(refresh_request("alice"));
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ((*answer)->basis, Basis::kDegraded);
  EXPECT_TRUE(origin_->reads.empty());
  EXPECT_EQ(engine_->stats().unread, 1u);
  origin_->reachability = Reach::kPrompt;
  EXPECT_FALSE(ask(refresh_request("alice"))->has_value());
}

TEST_F(RefreshTest, DoesNotWaitWhileTheOriginIsTooSlow) {
  origin_->reachability = Reach::kSlow;
  EXPECT_EQ((*ask(refresh_request("alice")))->basis, Basis::kDegraded);
  engine_->run_replay(clock_.now(), executor_, Flush::kAll);  // but the replay goes out
  EXPECT_EQ(origin_->replays.size(), 1u);
}

// A refused tuple is not read, so no read would notice that the origin lost it.
TEST_F(RefreshTest, ReplaysARefusedTupleAgainToAnOriginThatLostIt) {
  ask_and_answer(refresh_request("alice", 10), {});
  engine_->run_replay(clock_.now(), executor_, Flush::kAll);
  origin_->replays[0].reply(
      std::vector<CellTotals>(origin_->replays[0].cells.size(), {.mine = 10}));
  EXPECT_FALSE((*ask(refresh_request("alice")))->admitted());
  EXPECT_EQ(engine_->run_replay(clock_.now(), executor_, Flush::kAll).done, 0u);
  clock_.advance(Millis(5'000));
  EXPECT_FALSE((*ask(refresh_request("alice")))->admitted());
  EXPECT_GT(engine_->run_replay(clock_.now(), executor_, Flush::kAll).done, 0u);
}

TEST_F(RefreshTest, ReadsOnceForAllWaiters) {
  std::vector<Answer> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(ask(refresh_request("alice")));
  EXPECT_EQ(origin_->reads.size(), 1u);
  origin_->answer_read({.siblings = 2});
  executor_.run();
  int admitted = 0;
  for (const Answer& answer : answers) {
    ASSERT_TRUE(answer->has_value());
    admitted += (*answer)->admitted();
  }
  EXPECT_EQ(admitted, 6);  // 10 - 2 in this window - 2 carried over from the last
}

TEST_F(RefreshTest, ReadsNothingIfTheKnownCountsAlreadyDeny) {
  ask_and_answer(refresh_request("alice", 10), {});
  clock_.advance(Millis(10'000));  // stale
  const Answer answer = ask(refresh_request("alice"));
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ((*answer)->outcome, Outcome::kDenied);
  EXPECT_TRUE(origin_->reads.empty());
}

TEST_F(RefreshTest, DecidesOnTheKnownCountsWhenTheReadFailsAndMakesNothingFresh) {
  const Answer answer = ask(refresh_request("alice"));
  origin_->fail_read();
  executor_.run();
  ASSERT_TRUE(answer->has_value());
  EXPECT_TRUE((*answer)->admitted());
  EXPECT_EQ((*answer)->basis, Basis::kDegraded);
  // Not read again at once, which the verdict says; after the pause it is.
  const Answer soon = ask(refresh_request("alice"));
  ASSERT_TRUE(soon->has_value());
  EXPECT_EQ((*soon)->basis, Basis::kDegraded);
  clock_.advance(Millis(299));
  EXPECT_TRUE(ask(refresh_request("alice"))->has_value());
  EXPECT_TRUE(origin_->reads.empty());
  clock_.advance(Millis(1));
  EXPECT_FALSE(ask(refresh_request("alice"))->has_value());
  EXPECT_EQ(origin_->reads.size(), 1u);
}

TEST_F(RefreshTest, WaitsNoLongerThanItsDeadlineAndStillMergesALateReply) {
  const Answer answer = ask(refresh_request("alice"));
  clock_.advance(Millis(299));
  executor_.run();
  EXPECT_FALSE(answer->has_value());
  clock_.advance(Millis(1));
  executor_.run();
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ((*answer)->basis, Basis::kDegraded);
  origin_->answer_read({.siblings = 9});
  EXPECT_EQ(engine_->stats().cold.failed, 1u);
  const Verdict verdict = **ask(refresh_request("alice"));
  EXPECT_EQ(verdict.outcome, Outcome::kDenied);
  EXPECT_EQ(verdict.evidence.siblings, 9u);
}

TEST_F(RefreshTest, KeepsTheCountsOfTheArrivalTimeForAWaitingRequest) {
  Request request = refresh_request("alice", 8);
  request.duration = Millis(1000);
  ask_and_answer(request, {});
  clock_.advance(Millis(1750));
  request.cost = 1;
  const Answer answer = ask(request);
  ASSERT_FALSE(answer->has_value());
  clock_.advance(Millis(250));  // the window of the 8 no longer counts for new requests
  engine_->run_sweep(clock_.now(), 10'000);
  origin_->fail_read();
  executor_.run();
  EXPECT_EQ((*answer)->evidence.previous, 2u);
  EXPECT_EQ((*answer)->remaining, 10u - 2u - 1u);
  clock_.advance(Millis(2000));
  EXPECT_EQ(engine_->run_sweep(clock_.now(), 10'000).done, 1u);
}

TEST_F(RefreshTest, DoesNotSweepAnExpiredTupleWhileARequestWaitsForIt) {
  Request request = refresh_request("alice");
  request.duration = Millis(1000);
  ask_and_answer(request, {});
  clock_.advance(Millis(2200));  // expired and not swept yet
  const Answer answer = ask(request);
  ASSERT_FALSE(answer->has_value());
  clock_.advance(Millis(200));
  EXPECT_EQ(engine_->run_sweep(clock_.now(), 10'000).done, 0u);
  origin_->answer_read({.siblings = 4});
  executor_.run();
  EXPECT_EQ((*answer)->evidence.siblings, 4u);
  EXPECT_EQ((*answer)->basis, Basis::kRefreshed);
}

TEST_F(RefreshTest, PeeksAtATupleOfSiblingsWithoutCreatingIt) {
  const Verdict verdict = ask_and_answer(refresh_request("alice", 0), {.siblings = 4});
  EXPECT_EQ(verdict.basis, Basis::kRefreshed);
  EXPECT_EQ(verdict.remaining, 10u - 4u - 4u);
  EXPECT_EQ(verdict.evidence.siblings, 4u);
  EXPECT_EQ(verdict.evidence.previous, 4u);  // the evidence explains the remaining limit
  EXPECT_EQ(engine_->stats().tuples, 0u);
}

TEST_F(RefreshTest, ReadsABatchWithOneMessage) {
  const std::vector<Request> requests = {refresh_request("a"), refresh_request("b"),
                                         refresh_request("a"), refresh_request("c", 2)};
  std::optional<BatchVerdict> answer;
  engine_->check_all_async(clock_.now(), requests, executor_,
                           [&](const Result<BatchVerdict>& verdict) { answer = *verdict; });
  ASSERT_EQ(origin_->reads.size(), 1u);
  EXPECT_EQ(origin_->reads[0].cells.size(), 6u);  // both cells of three tuples
  origin_->answer_read({.siblings = 4});
  executor_.run();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->admitted());
  for (const Verdict& item : answer->items) EXPECT_EQ(item.basis, Basis::kRefreshed);
  EXPECT_EQ(answer->items[2].remaining, 0u);
}

// Regression: an item that siblings had used up was reported as "success, remaining 5, degraded".
TEST_F(RefreshTest, ReportsEachItemOfADeniedBatchAsASingleRequestWould) {
  clock_.advance(Millis(30'000));
  ASSERT_TRUE(ask_and_answer(refresh_request("full", 10), {}).admitted());
  const std::vector<Request> requests{refresh_request("full"), refresh_request("used up", 1, 5),
                                      refresh_request("half used", 1, 5)};
  std::optional<BatchVerdict> answer;
  engine_->check_all_async(clock_.now(), requests, executor_,
                           [&](const Result<BatchVerdict>& verdict) { answer = *verdict; });
  ASSERT_EQ(origin_->reads.size(), 1u);
  ASSERT_EQ(origin_->reads[0].cells.size(), 4u);  // none of the exhausted tuple
  origin_->reads[0].reply(std::vector<CellTotals>{{.siblings = 5}, {}, {.siblings = 2}, {}});
  executor_.run();
  ASSERT_TRUE(answer.has_value());
  EXPECT_FALSE(answer->admitted());
  const std::vector<Verdict>& items = answer->items;
  EXPECT_EQ(items[0].outcome, Outcome::kDenied);
  EXPECT_EQ(items[1].outcome, Outcome::kDenied);
  EXPECT_EQ(items[1].remaining, 0u);
  EXPECT_EQ(items[1].basis, Basis::kRefreshed);
  EXPECT_EQ(items[2].outcome, Outcome::kAdmitted);
  EXPECT_EQ(items[2].remaining, 3u);
  EXPECT_EQ(items[2].basis, Basis::kRefreshed);
  // Nothing was consumed; a single request gets the same answer.
  for (size_t i = 1; i < requests.size(); ++i) {
    Request single = requests[i];
    single.cost = 0;
    EXPECT_EQ(engine_->check(clock_.now(), single)->remaining, items[i].remaining);
  }
  EXPECT_EQ(engine_->stats().admitted, 3u);  // the first, and the two peeks
}

TEST_F(RefreshTest, DecidesAGroupAfterItsReadsAndAtOnceWithoutReads) {
  clock_.advance(Millis(30'000));
  ASSERT_TRUE(ask_and_answer(refresh_request("fresh"), {}).admitted());
  std::vector<Request> requests{refresh_request("cold", 2), refresh_request("fresh"),
                                refresh_request("other"), refresh_request("bad", -1)};
  std::vector<Result<Verdict>> verdicts(requests.size());
  bool done = false;
  const auto ask_group = [&] {
    done = false;
    return engine_->check_each_async(clock_.now(), requests, verdicts, executor_,
                                     [&done] { done = true; });
  };
  EXPECT_FALSE(ask_group());
  EXPECT_EQ(verdicts[1]->basis, Basis::kLocal);
  EXPECT_FALSE(verdicts[3].ok());
  ASSERT_EQ(origin_->reads.size(), 1u);
  EXPECT_EQ(origin_->reads[0].cells.size(), 4u);
  origin_->answer_read({.siblings = 2});
  EXPECT_FALSE(done);
  executor_.run();
  ASSERT_TRUE(done);
  EXPECT_EQ(verdicts[0]->basis, Basis::kRefreshed);
  EXPECT_EQ(verdicts[0]->remaining, 5u);  // two in this window, half of two in the last
  EXPECT_EQ(verdicts[2]->remaining, 6u);
  EXPECT_TRUE(ask_group());
  executor_.run();
  EXPECT_FALSE(done);
  EXPECT_EQ(verdicts[0]->remaining, 3u);
}

TEST_F(RefreshTest, KeepsOtherClassesLocalIfTheOriginCannotDecideThem) {
  Request request = refresh_request("alice");
  request.algorithm = Algorithm::kGcra;
  const Answer answer = ask(request);
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ((*answer)->basis, Basis::kLocal);
  EXPECT_TRUE(origin_->reads.empty());
}

TEST_F(RefreshTest, ReportsDegradedToACallerThatDoesNotWait) {
  EXPECT_EQ(engine_->check(clock_.now(), refresh_request("alice"))->basis, Basis::kDegraded);
}

// Replies from its own thread, so that reads end while requests join them.
class ThreadedOrigin final : public RegionalOrigin {
 public:
  explicit ThreadedOrigin(Executor& executor) : executor_(executor) {}
  void read(std::vector<CellRead> cells, OriginReply reply) override {
    reads.fetch_add(1);
    executor_.post([count = cells.size(), reply = std::move(reply)] {
      reply(std::vector<CellTotals>(count));
    });
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    reply(std::vector<CellTotals>(cells.size()));
  }
  std::atomic<int> reads{0};

 private:
  Executor& executor_;
};

TEST(SingleFlight, WakesEveryWaiterOnItsOwnExecutorOfFour) {
  constexpr int kRequests = 4000;
  platform::ThreadExecutor replies;
  replies.start();
  auto origin = std::make_shared<ThreadedOrigin>(replies);
  const doubles::ManualClock clock;
  auto engine = Engine::make(clock, {.origin = origin, .capacity = 1000, .seed = 1});
  std::array<platform::ThreadExecutor, 4> homes;
  std::atomic<int> answered{0};
  std::atomic<int> on_other_threads{0};
  for (auto& home : homes) home.start();
  for (auto& home : homes) {
    home.post([&] {
      const std::thread::id here = std::this_thread::get_id();
      for (int i = 0; i < kRequests; ++i) {
        // The time of each request is far ahead, so the tuple is stale again and again.
        const Instant now{.wall = WallTime(Millis(1'700'000'000'000)),
                          .mono = MonoTime(Millis(1'000'000'000 + i * 10'000))};
        engine->check_async(now, refresh_request("alice", 1, 1'000'000'000), home,
                            [&, here](const Result<Verdict>& verdict) {
                              if (std::this_thread::get_id() != here) on_other_threads.fetch_add(1);
                              if (verdict.ok()) answered.fetch_add(1);
                            });
      }
    });
  }
  // A lost waiter would block here until the test times out.
  while (answered.load() < 4 * kRequests) std::this_thread::yield();
  for (auto& home : homes) home.stop();
  replies.stop();
  EXPECT_EQ(on_other_threads.load(), 0);
  EXPECT_GT(origin->reads.load(), 0);
}

// A tuple may be evicted once the origin has its counts. If that happens between the check of its
// freshness and the decision, the decision lacks its counts.
class EvictionTest : public ::testing::Test {
 protected:
  // A full table of 16 slots, in which the next tuple to evict is "alice": fresh, with 30 used.
  void SetUp() override {
    ask(refresh_request("alice", 30, 100));
    for (const std::string& other : others_) ask(refresh_request(other, 1, 2));
    engine_->run_replay(clock_.now(), executor_, Flush::kAll);
    ASSERT_EQ(ask(refresh_request("alice", 0, 100)).basis, Basis::kLocal);
    ASSERT_EQ(engine_->stats().evicted, 0u);
  }

  Verdict ask(const Request& request) {
    Verdict answer;
    engine_->check_async(clock_.now(), request, executor_,
                         [&](const Result<Verdict>& verdict) { answer = *verdict; });
    executor_.run();
    return answer;
  }

  static std::vector<std::string> fifteen() {
    std::vector<std::string> names;
    for (int i = 0; i < 15; ++i) names.push_back("passer-" + std::to_string(i));
    return names;
  }

  doubles::ManualClock clock_;
  doubles::ManualExecutor executor_{clock_};
  std::shared_ptr<origins::InProcessOrigin> origin_ =
      std::make_shared<origins::InProcessOrigin>(clock_);
  std::shared_ptr<Engine> engine_ =
      Engine::make(clock_, {.origin = origin_,
                            .consistency = Consistency::kRelaxed,  // decided after a read
                            .capacity = 1,
                            .seed = 1});
  const std::vector<std::string> others_ = fifteen();
};

TEST_F(EvictionTest, ABatchWhoseItemsEvictEachOtherIsDegraded) {
  const std::vector<Request> requests = {refresh_request("alice", 1, 100),
                                         refresh_request("bob", 1, 100)};
  const auto answer = engine_->check_all(clock_.now(), requests);
  ASSERT_TRUE(answer->admitted());
  EXPECT_GT(engine_->stats().evicted, 0u);
  EXPECT_EQ(answer->items[0].evidence.own, 0u);
  EXPECT_EQ(answer->items[0].basis, Basis::kDegraded);
}

TEST_F(EvictionTest, ABatchWhoseTupleIsEvictedWhileItWaitsIsDegraded) {
  const std::vector<Request> requests = {refresh_request("alice", 1, 100),
                                         refresh_request("bob", 1, 100)};
  std::optional<BatchVerdict> answer;
  engine_->check_all_async(clock_.now(), requests, executor_,
                           [&](const Result<BatchVerdict>& verdict) { answer = *verdict; });
  executor_.run();
  ASSERT_TRUE(answer && answer->admitted());
  EXPECT_GT(engine_->stats().evicted, 0u);
  EXPECT_EQ(answer->items[0].basis, Basis::kDegraded);
}

TEST_F(EvictionTest, ARequestWhoseTupleIsEvictedAfterItsReadIsDegraded) {
  // The read has ended, but its callback waits for the executor.
  clock_.advance(Millis(6001));
  std::optional<Verdict> answer;
  engine_->check_async(clock_.now(), refresh_request("alice", 1, 100), executor_,
                       [&](const Result<Verdict>& verdict) { answer = *verdict; });
  ASSERT_FALSE(answer);
  ASSERT_TRUE(engine_->check(clock_.now(), refresh_request("bob", 1, 100))->admitted());
  ASSERT_GT(engine_->stats().evicted, 0u);
  executor_.run();
  ASSERT_TRUE(answer && answer->admitted());
  EXPECT_EQ(answer->evidence.siblings, 0u);
  EXPECT_EQ(answer->basis, Basis::kDegraded);
}

}  // namespace
}  // namespace weir::regional
