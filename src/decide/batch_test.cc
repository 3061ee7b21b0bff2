#include "decide/batch.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <thread>

#include "decide/all_algorithms_test.h"
#include "decide/engine.h"
#include "tests/doubles/manual_clock.h"

namespace weir::decide {
namespace {

// Algorithms of one class share counts; here each has its own workspace.
struct Ask {
  std::string_view name = "alice";
  Count limit = 10;
  Count cost = 1;
  Algorithm algorithm = Algorithm::kSlidingWindow;
};

Request batch_request(const Ask& ask) {
  return {.workspace = to_string(ask.algorithm),
          .ns = "api",
          .identifier = ask.name,
          .limit = ask.limit,
          .duration = Millis(10'000),
          .cost = ask.cost,
          .algorithm = ask.algorithm};
}

class BatchTest : public ::testing::Test {
 protected:
  BatchVerdict ask_all(const std::vector<Ask>& asks) {
    std::vector<Request> requests;
    for (const Ask& ask : asks) requests.push_back(batch_request(ask));
    return *engine_->check_all(clock_.now(), requests);
  }
  Count free(Ask ask) {
    ask.cost = 0;
    return engine_->check(clock_.now(), batch_request(ask))->remaining;
  }
  doubles::ManualClock clock_;
  std::shared_ptr<Engine> engine_ = Engine::make(clock_, Options{.capacity = 1000, .seed = 1});
};

TEST_F(BatchTest, ChargesEveryItemWhenAllPass) {
  const BatchVerdict verdict =
      ask_all({{.name = "a", .cost = 1}, {.name = "b", .cost = 2}, {.name = "c", .cost = 3}});
  EXPECT_TRUE(verdict.admitted());
  ASSERT_EQ(verdict.items.size(), 3u);
  EXPECT_EQ(verdict.items[0].remaining, 9u);
  EXPECT_EQ(verdict.items[1].remaining, 8u);
  EXPECT_EQ(verdict.items[2].remaining, 7u);
}

TEST_F(BatchTest, ChangesNothingWhenOneItemIsDeniedForAllAlgorithms) {
  for (const Algorithm refused : kAllAlgorithms) {
    std::vector<Ask> asks;
    for (const Algorithm algorithm : kAllAlgorithms)
      asks.push_back({.name = "fine", .cost = 4, .algorithm = algorithm});
    asks.push_back({.name = "full", .limit = 3, .cost = 2, .algorithm = refused});
    ASSERT_TRUE(engine_->check(clock_.now(), batch_request(asks.back()))->admitted());
    std::vector<Count> before;
    for (const Ask& ask : asks) before.push_back(free(ask));
    const BatchVerdict verdict = ask_all(asks);
    EXPECT_EQ(verdict.outcome, Outcome::kDenied);
    EXPECT_EQ(verdict.items.back().outcome, Outcome::kDenied);
    EXPECT_TRUE(verdict.items.back().retry_after.has_value());
    for (size_t i = 0; i < asks.size(); ++i) {
      EXPECT_EQ(free(asks[i]), before[i]) << to_string(asks[i].algorithm);
      EXPECT_EQ(verdict.items[i].remaining, before[i]) << to_string(asks[i].algorithm);
    }
    for (size_t i = 0; i + 1 < asks.size(); ++i) EXPECT_TRUE(verdict.items[i].admitted());
  }
}

TEST_F(BatchTest, AddsUpItemsOfOneTuple) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const Ask three{.name = "same", .cost = 3, .algorithm = algorithm};
    EXPECT_TRUE(ask_all({three, three, three}).admitted());
    const BatchVerdict last = ask_all({{.name = "same", .cost = 1, .algorithm = algorithm},
                                       {.name = "same", .cost = 1, .algorithm = algorithm}});
    EXPECT_FALSE(last.admitted());
    EXPECT_TRUE(last.items[0].admitted());
    EXPECT_FALSE(last.items[1].admitted());
    // Both were taken back.
    EXPECT_EQ(last.items[0].remaining, 1u) << to_string(algorithm);
    EXPECT_EQ(last.items[1].remaining, 1u) << to_string(algorithm);
    EXPECT_EQ(free(three), 1u) << to_string(algorithm);
  }
}

TEST_F(BatchTest, IsNeverIfOneItemIsNever) {
  const BatchVerdict verdict = ask_all({{.name = "a"}, {.name = "b", .cost = 11}});
  EXPECT_EQ(verdict.outcome, Outcome::kNever);
  EXPECT_EQ(free({.name = "a"}), 10u);
}

TEST_F(BatchTest, PeeksWithoutCreatingATuple) {
  EXPECT_TRUE(ask_all({{.name = "a", .cost = 0}, {.name = "b", .cost = 0}}).admitted());
  EXPECT_EQ(engine_->stats().tuples, 0u);
}

RC_GTEST_PROP(Batch, EqualsSingleRequestsOnACopyThatIsDiscardedOnDenial, ()) {
  doubles::ManualClock clock;
  auto engine = Engine::make(clock, Options{.capacity = 1000, .seed = 1});
  const std::string names[] = {"a", "b", "c"};
  // A reference that sums the admitted costs per (name, class), for fixed windows and backlogs
  // while time stands still: both admit up to the limit.
  std::map<std::pair<std::string, bool>, Count> used;
  for (int round = 0; round < 30; ++round) {
    std::vector<Ask> asks;
    const int size = *rc::gen::inRange(1, 6);
    for (int i = 0; i < size; ++i) {
      asks.push_back(
          {.name = names[*rc::gen::inRange(0, 3)],
           .limit = 12,
           .cost = *rc::gen::inRange<Count>(0, 4),
           .algorithm = *rc::gen::inRange(0, 2) ? Algorithm::kGcra : Algorithm::kFixedWindow});
    }
    auto trial = used;
    bool passes = true;
    std::vector<Request> requests;
    for (const Ask& ask : asks) {
      requests.push_back(batch_request(ask));
      Count& count = trial[{std::string(ask.name), ask.algorithm == Algorithm::kGcra}];
      count += ask.cost;
      if (count > ask.limit) passes = false;
    }
    const auto verdict = engine->check_all(clock.now(), requests);
    RC_ASSERT(verdict->admitted() == passes);
    if (passes) used = trial;
  }
}

// The sketch has no counts of a tuple in the table and would admit it from zero.
TEST(Decider, DeniesRatherThanUseTheSketchForATupleThatIsHeldForLong) {
  const doubles::ManualClock clock;
  const LimiterState state(clock, Options{.capacity = 64}, 1);
  Decider decider(state);
  const RequestContext context(clock.now(), batch_request({.algorithm = Algorithm::kSlidingLog}),
                               state.tuples->hash);
  ASSERT_TRUE(decider.decide(context).decision.admitted());
  const auto step = decider.with_tuple(context, [](const memory::Tuple&) {
    return memory::CellDecision{.status = memory::DecisionStatus::kRetry};
  });
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->decision.outcome, Outcome::kDenied);
  EXPECT_EQ(step->decision.retry_at, clock.now().wall + Millis(1));
}

// Another batch was suspended while it held the tuple: this one waits once, not once per attempt,
// and reports the present counts.
TEST(Batch, IsDeniedForOneTickByATupleThatIsHeldForLong) {
  for (const Algorithm algorithm : {Algorithm::kSlidingLog, Algorithm::kSlidingWindowStrict}) {
    const doubles::ManualClock clock;
    const LimiterState state(clock, Options{.capacity = 64}, 1);
    Decider decider(state);
    const auto context_of = [&](const Ask& ask) {
      return RequestContext(clock.now(), batch_request(ask), state.tuples->hash);
    };
    ASSERT_TRUE(
        decider.decide(context_of({.cost = 3, .algorithm = algorithm})).decision.admitted());
    const std::vector<RequestContext> contexts = {context_of({.name = "bob"}),
                                                  context_of({.cost = 2, .algorithm = algorithm})};
    const epoch::Guard guard;
    memory::Word& head = state.tuples->table.find(contexts[1].key).slot->hot[1];
    int spins = memory::kHeadLockSpins;
    ASSERT_EQ(memory::try_lock_head(head, spins), memory::HeadLock::kLocked);
    const BatchDecision refused = Batch(decider, state, contexts).run();
    EXPECT_FALSE(refused.admitted);
    EXPECT_TRUE(refused.items[0].decision.admitted());
    EXPECT_EQ(refused.items[1].decision.outcome, Outcome::kDenied);
    EXPECT_EQ(refused.items[1].decision.remaining, 7u);
    EXPECT_EQ(refused.items[1].decision.retry_at, clock.now().wall + Millis(1));
    // A single request is denied, too.
    const memory::CellDecision single = decider.decide(contexts[1]);
    EXPECT_EQ(single.decision.outcome, Outcome::kDenied);
    EXPECT_EQ(single.decision.remaining, 7u);
    memory::unlock_head(head);
    EXPECT_TRUE(Batch(decider, state, contexts).run().admitted);
  }
}

TEST_F(BatchTest, NeverAdmitsTooMuchWhileThreadsMixBatchesAndSingleRequests) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    constexpr Count kLimit = 900;
    std::atomic<Count> spent_a{0};
    std::atomic<Count> spent_b{0};
    std::vector<std::thread> threads;
    const Ask a{.name = "shared-a", .limit = kLimit, .algorithm = algorithm};
    const Ask b{.name = "shared-b", .limit = kLimit / 2, .algorithm = algorithm};
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 1500; ++i) {
          if (t == 0) {
            if (engine_->check(clock_.now(), batch_request(a))->admitted()) spent_a += 1;
          } else {
            // The order of requests differs by thread; the order of charges must not.
            const std::vector<Ask> asks = t == 1 ? std::vector<Ask>{a, b} : std::vector<Ask>{b, a};
            if (ask_all(asks).admitted()) spent_a += 1, spent_b += 1;
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_LE(spent_a.load(), kLimit) << to_string(algorithm);
    EXPECT_LE(spent_b.load(), kLimit / 2) << to_string(algorithm);
    // Denied batches changed nothing: exactly the unspent limit is left.
    EXPECT_EQ(free(a), kLimit - spent_a.load()) << to_string(algorithm);
    EXPECT_EQ(free(b), kLimit / 2 - spent_b.load()) << to_string(algorithm);
  }
}

}  // namespace
}  // namespace weir::decide
