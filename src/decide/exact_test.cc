// Exact decisions of two engines that share an origin.

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/split_mix.h"
#include "decide/all_algorithms_test.h"
#include "decide/engine.h"
#include "origins/in_process_origin.h"
#include "regional/query_share.h"
#include "tests/doubles/forwarding_origin.h"
#include "tests/doubles/manual_clock.h"
#include "tests/effort.h"

namespace weir::decide {
namespace {

constexpr Algorithm kUnmergeable[] = {Algorithm::kGcra, Algorithm::kTokenBucket,
                                      Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog};

// An origin whose exact answers can be held back, or lost after they were decided.
class Link final : public doubles::ForwardingOrigin {
 public:
  using ForwardingOrigin::ForwardingOrigin;
  void decide(std::vector<ExactCall> all, ExactReply reply) override {
    calls.insert(calls.end(), all.begin(), all.end());
    if (during_call) during_call();
    ForwardingOrigin::decide(std::move(all), [&](auto answers) {
      if (failures > 0) {
        --failures;
        return reply(Error{.code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp});
      }
      if (!holds) {
        around_reply(1);
        reply(std::move(answers));
        return around_reply(-1);
      }
      held.push_back([reply, value = answers.value()] { reply(value); });
    });
  }
  [[nodiscard]] Reach reach() const override { return reachability; }
  [[nodiscard]] uint32_t live_nodes() const override { return nodes; }
  [[nodiscard]] std::optional<Membership> membership() const override { return members; }

  void release() {
    for (const auto& each : std::exchange(held, {})) each();
  }

  std::vector<ExactCall> calls;
  std::function<void()> during_call;                   // runs before the call is decided
  std::function<void(int)> around_reply = [](int) {};  // 1: begins; -1: has ended
  std::vector<std::function<void()>> held;
  bool holds = false;
  int failures = 0;
  Reach reachability = Reach::kPrompt;
  uint32_t nodes = 2;
  std::optional<Membership> members;  // none: it has no allowances
};

class Exact : public ::testing::Test {
 protected:
  struct Node {
    Node(const doubles::ManualClock& clock, std::shared_ptr<RegionalOrigin> far_end)
        : executor(clock), link(std::make_shared<Link>(std::move(far_end))) {}
    doubles::ManualExecutor executor;
    std::shared_ptr<Link> link;
    std::shared_ptr<Engine> engine;
  };

  void start(Options options = {.consistency = Consistency::kExact}) {
    options.seed = 1;
    options.capacity = 1024;
    for (int i = 0; i < 2; ++i) {
      auto& node = nodes_.emplace_back(
          std::make_unique<Node>(clock_, i == 0 ? origin_ : origin_->another_endpoint()));
      options.origin = node->link;
      options.seed = static_cast<uint64_t>(i) + 1;
      node->engine = Engine::make(clock_, options);
    }
  }
  [[nodiscard]] Link& link(size_t node) { return *nodes_[node]->link; }

  [[nodiscard]] Result<Verdict> check(size_t index, const Request& request) {
    Node& node = *nodes_[index];
    std::optional<Result<Verdict>> received;
    node.engine->check_async(clock_.now(), request, node.executor,
                             [&](Result<Verdict> verdict) { received = std::move(verdict); });
    node.executor.run();
    if (!received) {  // the origin has just refused a request
      clock_.advance(Millis(20));
      node.executor.run();
    }
    return std::move(received.value());
  }
  [[nodiscard]] BatchVerdict check_all(size_t index, const std::vector<Request>& requests) {
    Node& node = *nodes_[index];
    std::optional<BatchVerdict> received;
    node.engine->check_all_async(clock_.now(), requests, node.executor,
                                 [&](auto verdict) { received = std::move(verdict.value()); });
    node.executor.run();
    for (int i = 0; i < 3 && !received; ++i) {
      clock_.advance(Millis(20));
      node.executor.run();
    }
    return std::move(received.value());
  }
  [[nodiscard]] static Request request(Algorithm algorithm, Count cost = 1) {
    // gcra and token_bucket would share a count, as would the windows.
    return {.ns = "api",
            .identifier = to_string(algorithm),
            .limit = 10,
            .duration = Millis(10'000),
            .cost = cost,
            .algorithm = algorithm};
  }
  [[nodiscard]] static Request peek(Algorithm algorithm) { return request(algorithm, 0); }

  doubles::ManualClock clock_;
  std::shared_ptr<origins::InProcessOrigin> origin_ =
      std::make_shared<origins::InProcessOrigin>(clock_);
  std::vector<std::unique_ptr<Node>> nodes_;
};

// Two engines against one engine that is alone.
TEST_F(Exact, TwoEnginesDecideAsOneInEveryAlgorithm) {
  start();
  const auto alone = Engine::make(clock_, {.capacity = 1024, .seed = 7});
  uint64_t random = 1;
  const auto draw = [&](uint64_t below) { return base::split_mix(random) % below; };
  for (const Algorithm algorithm : kAllAlgorithms) {
    SCOPED_TRACE(to_string(algorithm));
    const bool is_backlog = memory::class_of(algorithm) == memory::CellClass::kBacklog;
    const bool is_window = memory::class_of(algorithm) == memory::CellClass::kWindow;
    uint64_t admitted = 0;
    for (uint64_t i = 0; i < generated_cases(3000); ++i) {
      Request each = request(algorithm);
      each.limit = draw(10) == 0 ? 7 : 10;
      each.duration = Millis(1000);
      constexpr Count kCosts[] = {1, 1, 1, 2, 5, 10, 11, 0};
      each.cost = kCosts[draw(is_window ? 7 : 8)];
      if (is_backlog && draw(2) == 0) each.burst = 1 + draw(15);
      const auto expected = alone->check(clock_.now(), each);
      const auto actual = check(draw(2), each);
      ASSERT_TRUE(expected.ok() && actual.ok());
      ASSERT_EQ(to_string(actual->outcome), to_string(expected->outcome)) << i;
      // The counts that a process knows of a window may be enough to deny, and not be all.
      if (!is_window || actual->admitted()) {
        ASSERT_EQ(actual->remaining, expected->remaining) << i;
        ASSERT_EQ(actual->reset, expected->reset) << i;
        ASSERT_EQ(actual->retry_after, expected->retry_after) << i;
        ASSERT_EQ(actual->limit, expected->limit) << i;
      }
      if (!is_window) {
        ASSERT_EQ(to_string(actual->basis), to_string(Basis::kRefreshed)) << i;
      }
      admitted += actual->admitted() && each.cost > 0 ? 1 : 0;
      clock_.advance(Millis(20 + draw(draw(20) == 0 ? 3000 : 100)));
    }
    EXPECT_GT(admitted, generated_cases(3000) / 10);
  }
}

TEST_F(Exact, ABurstOnBothEnginesIsAdmittedOnce) {
  start();
  for (const Algorithm algorithm : kAllAlgorithms) {
    SCOPED_TRACE(to_string(algorithm));
    Count admitted = 0;
    for (int i = 0; i < 20; ++i) {
      for (size_t node = 0; node < 2; ++node) {
        for (const auto& verdict : {check(node, request(algorithm))}) {
          admitted += verdict->admitted() ? 1 : 0;
        }
      }
    }
    // While the burst waits for denials, a unit may drain.
    EXPECT_GE(admitted, 10u);
    EXPECT_LE(admitted, 11u);
  }
}

TEST_F(Exact, APeekReadsTheOrigin) {
  start();
  for (const Algorithm algorithm : kUnmergeable) {
    ASSERT_TRUE(check(0, request(algorithm, 4))->admitted());
    const auto verdict = check(1, peek(algorithm));
    EXPECT_EQ(verdict->remaining, 6u);
    EXPECT_EQ(verdict->basis, Basis::kRefreshed);
  }
}

TEST_F(Exact, GroupsOfRequestsAskTheOrigin) {
  start();
  for (const Algorithm algorithm : kUnmergeable) {
    ASSERT_TRUE(check(0, request(algorithm, 4))->admitted());
    ASSERT_TRUE(check(1, request(algorithm, 4))->admitted());
    const std::vector<Request> group(3, request(algorithm));
    std::vector<Result<Verdict>> verdicts(3);
    bool done = false;
    if (!nodes_[1]->engine->check_each_async(clock_.now(), group, verdicts, nodes_[1]->executor,
                                             [&] { done = true; })) {
      nodes_[1]->executor.run();
      EXPECT_TRUE(done);
    }
    EXPECT_TRUE(verdicts[0]->admitted());
    EXPECT_TRUE(verdicts[1]->admitted());
    EXPECT_FALSE(verdicts[2]->admitted());
  }
}

TEST_F(Exact, CombinesRequestsThatComeMeanwhile) {
  start();
  link(0).holds = true;
  std::vector<Outcome> outcomes;
  for (int i = 0; i < 12; ++i) {
    nodes_[0]->engine->check_async(clock_.now(), request(Algorithm::kGcra), nodes_[0]->executor,
                                   [&](auto verdict) { outcomes.push_back(verdict->outcome); });
  }
  EXPECT_EQ(link(0).calls.size(), 1u);
  link(0).release();
  EXPECT_EQ(link(0).calls.size(), 2u);
  EXPECT_EQ(link(0).calls.at(1).asks.size(), 11u);
  link(0).release();
  nodes_[0]->executor.run();
  ASSERT_EQ(outcomes.size(), 12u);
  EXPECT_EQ(std::count(outcomes.begin(), outcomes.end(), Outcome::kAdmitted), 10);
}

TEST_F(Exact, ACallHasOneRate) {
  start();
  link(0).holds = true;
  for (const Count limit : {10, 10, 20, 20, 10}) {
    Request each = request(Algorithm::kGcra);
    each.limit = limit;
    nodes_[0]->engine->check_async(clock_.now(), each, nodes_[0]->executor, [](const auto&) {});
  }
  while (!link(0).held.empty()) link(0).release();
  ASSERT_EQ(link(0).calls.size(), 4u);
  EXPECT_EQ(link(0).calls[2].limit, 20u);
  EXPECT_EQ(link(0).calls[2].asks.size(), 2u);
}

TEST_F(Exact, AnAnswerThatWasLostIsFetchedAgainAndChargedOnce) {
  start();
  for (const Algorithm algorithm : kUnmergeable) {
    link(0).failures = 1;
    const auto verdict = check(0, request(algorithm, 4));
    EXPECT_TRUE(verdict->admitted());
    EXPECT_EQ(verdict->basis, Basis::kRefreshed);
    EXPECT_EQ(verdict->remaining, 6u);
    EXPECT_EQ(check(1, peek(algorithm))->remaining, 6u);
  }
}

TEST_F(Exact, FollowsTheLossPolicyWhileTheOriginIsLost) {
  start();
  for (const Algorithm algorithm : kUnmergeable) {
    SCOPED_TRACE(to_string(algorithm));
    for (const auto& [policy, most] :
         {std::pair(OnOriginLoss::kDeny, 0), std::pair(OnOriginLoss::kShare, 5),
          std::pair(OnOriginLoss::kLocal, 10)}) {
      link(0).reachability = Reach::kNone;
      Request each = request(algorithm);
      const std::string identifier(to_string(policy));
      each.workspace = identifier;
      each.consistency = Consistency::kExact;
      each.on_origin_loss = policy;
      int admitted = 0;
      for (int i = 0; i < 20; ++i) {
        const auto verdict = check(0, each);
        ASSERT_TRUE(verdict.ok());
        EXPECT_EQ(verdict->basis, Basis::kDegraded);
        EXPECT_EQ(verdict->limit, 10u);
        EXPECT_EQ(verdict->retry_after.has_value(), !verdict->admitted());
        admitted += verdict->admitted() ? 1 : 0;
      }
      EXPECT_EQ(admitted, most) << identifier;
      // More than a share is not more than the limit.
      each.cost = 8;
      EXPECT_EQ(check(0, each)->outcome, Outcome::kDenied);
      each.cost = 11;
      EXPECT_NE(check(0, each)->outcome, Outcome::kAdmitted);
    }
  }
}

TEST_F(Exact, KnowsItsOwnAdmissionsWhenTheOriginIsLost) {
  start();
  for (const Algorithm algorithm : kUnmergeable) {
    link(0).reachability = Reach::kPrompt;
    ASSERT_TRUE(check(0, request(algorithm, 6))->admitted());
    link(0).reachability = Reach::kNone;
    EXPECT_EQ(check(0, peek(algorithm))->remaining, 4u);
  }
}

TEST_F(Exact, DecidesOnAQuarterOfItsShareIfTheAnswerIsLate) {
  start();
  link(0).holds = true;
  for (const Algorithm algorithm : kUnmergeable) {
    std::optional<Verdict> received;
    nodes_[0]->engine->check_async(clock_.now(), request(algorithm, 1), nodes_[0]->executor,
                                   [&](auto verdict) { received = verdict.value(); });
    clock_.advance(Millis(300));
    nodes_[0]->executor.run();
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(received->basis, Basis::kDegraded);
    EXPECT_TRUE(received->admitted());
    EXPECT_EQ(received->remaining, 0u);  // of a quarter of its half
    link(0).release();
    nodes_[0]->executor.run();
  }
}

// The origin is asked, since only it knows the retry time of a larger cost. If the answer was late,
// the process admitted the request by itself, although a smaller cost was denied until later.
TEST_F(Exact, DeniesWhatTheOriginStillDeniesIfTheAnswerIsLate) {
  start({.consistency = Consistency::kConverge});
  for (const Algorithm algorithm : kUnmergeable) {
    SCOPED_TRACE(to_string(algorithm));
    const auto of_cost = [&](Count cost) {
      Request each = request(algorithm, cost);
      each.limit = 100;
      each.duration = Millis(100'000);
      return each;
    };
    ASSERT_TRUE(check(1, of_cost(100))->admitted());
    const Verdict denied = check(0, of_cost(2)).value();
    ASSERT_FALSE(denied.admitted());
    clock_.advance(Millis(20));
    link(0).holds = true;
    std::vector<Verdict> late;
    Node& node = *nodes_[0];
    const auto ask = [&](Count cost) {
      node.engine->check_async(clock_.now(), of_cost(cost), node.executor,
                               [&](auto verdict) { late.push_back(verdict.value()); });
    };
    ask(5);
    const std::vector<Request> batch{of_cost(5)};
    node.engine->check_all_async(clock_.now(), batch, node.executor,
                                 [&](auto verdict) { late.push_back(verdict.value().items[0]); });
    ask(1);
    ASSERT_TRUE(late.empty()) << "the origin is asked";
    clock_.advance(Millis(300));
    node.executor.run();
    ASSERT_EQ(late.size(), 3u);
    for (const Verdict& verdict : late) EXPECT_EQ(verdict.basis, Basis::kDegraded);
    for (const size_t larger : {size_t{0}, size_t{1}}) {
      EXPECT_FALSE(late[larger].admitted());
      EXPECT_EQ(late[larger].limit, 100u);
      EXPECT_EQ(late[larger].retry_after, *denied.retry_after - Millis(320));
    }
    // Less than what was denied may fit.
    EXPECT_TRUE(late[2].admitted());
    link(0).holds = false;
    link(0).release();
    node.executor.run();
  }
}

TEST_F(Exact, WithoutAnExactStoreEachProcessDecidesAlone) {
  class Steps final : public doubles::ForwardingOrigin {
   public:
    using ForwardingOrigin::ForwardingOrigin;
    [[nodiscard]] ExactStore* exact_store() override { return nullptr; }
  };
  const auto engine = Engine::make(clock_, {.origin = std::make_shared<Steps>(origin_),
                                            .consistency = Consistency::kExact,
                                            .capacity = 64,
                                            .seed = 1});
  doubles::ManualExecutor executor(clock_);
  for (const Algorithm algorithm : kUnmergeable) {
    std::optional<Verdict> received;
    EXPECT_TRUE(engine->check_async(clock_.now(), request(algorithm), executor,
                                    [&](auto verdict) { received = verdict.value(); }));
    EXPECT_EQ(received->basis, Basis::kLocal);
  }
}

TEST_F(Exact, ABatchIsAdmittedIfTheOriginAdmitsEachItem) {
  start();
  std::vector<Request> batch;
  for (const Algorithm algorithm : kAllAlgorithms) {
    batch.push_back(request(algorithm, 4));
    batch.push_back(request(algorithm, 2));
  }
  for (Request& each : batch) each.limit = 100;
  const BatchVerdict verdict = check_all(0, batch);
  EXPECT_EQ(verdict.outcome, Outcome::kAdmitted);
  for (const Verdict& item : verdict.items) EXPECT_EQ(item.basis, Basis::kRefreshed);
  Request log = peek(Algorithm::kSlidingLog);
  log.limit = 100;
  EXPECT_EQ(check(1, log)->remaining, 94u);
}

TEST_F(Exact, ABatchIsDeniedIfTheOriginDeniesAnItem) {
  start();
  for (const Algorithm algorithm : kUnmergeable) {
    Request full = request(algorithm, 10);
    full.workspace = "full";
    ASSERT_TRUE(check(1, full)->admitted());
    full.cost = 1;
    const BatchVerdict verdict = check_all(0, {request(algorithm, 4), full});
    EXPECT_EQ(verdict.outcome, Outcome::kDenied);
    EXPECT_TRUE(verdict.items[0].admitted());
    EXPECT_EQ(verdict.items[1].outcome, Outcome::kDenied);
    EXPECT_TRUE(verdict.items[1].retry_after.has_value());
    clock_.advance(Millis(20));
    // Nothing was consumed.
    EXPECT_EQ(check(1, peek(algorithm))->remaining, 10u);
    EXPECT_EQ(verdict.items[0].remaining, 10u);
    // Each of these would pass alone.
    EXPECT_EQ(check_all(0, {request(algorithm, 6), request(algorithm, 6)}).outcome,
              Outcome::kDenied);
    clock_.advance(Millis(20));
    EXPECT_EQ(check(1, peek(algorithm))->remaining, 10u);
    EXPECT_EQ(check_all(0, {request(algorithm, 6), request(algorithm, 4)}).outcome,
              Outcome::kAdmitted);
    clock_.advance(Millis(20));
    EXPECT_EQ(check(1, peek(algorithm))->remaining, 0u);
    EXPECT_EQ(check_all(0, {request(algorithm, 11), request(algorithm, 1)}).outcome,
              Outcome::kNever);
    clock_.advance(Millis(20));
  }
}

TEST_F(Exact, DecidesABurstBeyondItsRangeInTheProcess) {
  start();
  Request huge = request(Algorithm::kGcra);
  huge.limit = 1;
  huge.duration = kMaxDuration;
  huge.burst = Count{1} << 29;
  EXPECT_FALSE(regional::drains_in_time(huge.algorithm, huge.limit, huge.duration, *huge.burst));
  EXPECT_EQ(check(0, huge)->basis, Basis::kLocal);
  huge.consistency = Consistency::kExact;
  const auto refused = check(0, huge);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "burst");
}

TEST_F(Exact, CannotResetWhatTheOriginKeeps) {
  start();
  const auto refused = nodes_[0]->engine->reset(clock_.now(), request(Algorithm::kGcra));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "consistency");
}

TEST(QueryShare, CanBeRepresentedAtAnyRate) {
  uint64_t random = 1;
  const auto draw = [&](uint64_t below) { return base::split_mix(random) % below; };
  for (uint64_t i = 0; i < generated_cases(100'000); ++i) {
    memory::Query query{
        .algorithm = Algorithm::kGcra,
        .duration = Millis(100 + draw(draw(2) == 0 ? 2'000'000'000 : 300'000'000'000)),
        .limit = 1 + draw(uint64_t{1} << draw(40))};
    query.ask.capacity = 1 + draw(uint64_t{1} << draw(40));
    const auto fits = [&] {
      return algorithms::representable(algorithms::pace_of(query.limit, query.duration),
                                       query.limit, query.ask.capacity);
    };
    if (!fits()) continue;
    regional::divide(query, static_cast<uint32_t>(1 + draw(50)));
    ASSERT_TRUE(fits()) << query.limit << " per " << query.duration.count();
    ASSERT_GE(query.limit, 1u);
    ASSERT_GE(query.ask.capacity, 1u);
  }
}

// A stack that grew by a few frames for each of them would end the process.
TEST_F(Exact, AnOriginThatRepliesAtOnceIsNotCalledFromItsOwnReply) {
  start();
  Node& node = *nodes_[0];
  const Request asked = request(Algorithm::kGcra);
  int depth = 0;
  int deepest = 0;
  int left = 1000;
  int replies = 0;
  const auto send = [&] {
    node.engine->check_async(clock_.now(), asked, node.executor, [&](auto) { ++replies; });
  };
  node.link->during_call = [&] {
    if (left > 0) send();  // waits for the next call
    --left;
  };
  node.link->around_reply = [&](int change) { deepest = std::max(deepest, depth += change); };
  send();
  for (int i = 0; i < 2000; ++i) {
    node.executor.run();
    clock_.advance(Millis(20));  // after a refusal
  }
  EXPECT_EQ(replies, 1001);
  EXPECT_EQ(deepest, 1);
}

// The default consistency, with an origin that is told at once and used by one process: allowances
// and announced denials decide as the origin would.
TEST_F(Exact, AConvergingEngineDecidesAsOneAloneIfNothingIsLate) {
  start({.consistency = Consistency::kConverge});
  const MonoTime began = clock_.now().mono;
  const auto alone = Engine::make(clock_, {.capacity = 1024, .seed = 7});
  uint64_t random = 1;
  const auto draw = [&](uint64_t below) { return base::split_mix(random) % below; };
  const auto tell = [&] {
    link(0).members = {.nodes = 2, .since = began, .heard_at = clock_.now().mono};
    (void)nodes_[0]->engine->run_replay(clock_.now(), nodes_[0]->executor, Flush::kAll);
    nodes_[0]->executor.run();
  };
  clock_.advance(Millis(20'000));
  for (const Algorithm algorithm : kUnmergeable) {
    SCOPED_TRACE(to_string(algorithm));
    const bool is_backlog = memory::class_of(algorithm) == memory::CellClass::kBacklog;
    uint64_t admitted_alone = 0;
    uint64_t denied_alone = 0;
    for (uint64_t i = 0; i < generated_cases(3000); ++i) {
      tell();
      Request each = request(algorithm);
      each.limit = 100;
      each.duration = Millis(10'000);
      constexpr Count kCosts[] = {1, 1, 1, 1, 2, 5, 50, 0};
      each.cost = kCosts[draw(8)];
      if (is_backlog && draw(10) == 0) each.burst = 50 + draw(100);
      const auto expected = alone->check(clock_.now(), each);
      const auto actual = check(0, each);
      tell();
      ASSERT_TRUE(expected.ok() && actual.ok());
      ASSERT_EQ(to_string(actual->outcome), to_string(expected->outcome)) << i;
      if (!actual->admitted()) {
        ASSERT_EQ(actual->retry_after, expected->retry_after) << i;
      }
      if (actual->basis == Basis::kLocal) ++(actual->admitted() ? admitted_alone : denied_alone);
      // Without a refusal for two durations there are allowances again.
      clock_.advance(Millis(20 + draw(draw(50) == 0 ? 60'000 : 300)));
    }
    EXPECT_GT(admitted_alone, 0);
    EXPECT_GT(denied_alone, 0);
  }
}

// A denial of cost 1 answered a request of cost 5: it was told 999 ms, and 3,997 ms later it was
// still denied.
TEST_F(Exact, ARetryTimeIsOfTheCostThatWasAsked) {
  start({.consistency = Consistency::kConverge});
  for (const Algorithm algorithm : {Algorithm::kGcra, Algorithm::kTokenBucket}) {
    SCOPED_TRACE(to_string(algorithm));
    ASSERT_TRUE(check(0, request(algorithm, 10))->admitted());
    clock_.advance(Millis(1));
    EXPECT_EQ(check(0, request(algorithm, 1))->retry_after, Millis(999));
    clock_.advance(Millis(20));
    EXPECT_EQ(check(0, request(algorithm, 5))->retry_after, Millis(4979));
    clock_.advance(Millis(30));
    EXPECT_EQ(check(0, request(algorithm, 5))->retry_after, Millis(4949));
  }
}

// The README promises it for all algorithms.
TEST_F(Exact, EveryRetryTimeIsExactForEveryCost) {
  constexpr Count kBefore[] = {0, 1, 3};
  constexpr Count kCosts[] = {1, 2, 5, 10};
  for (const Consistency consistency : {Consistency::kConverge, Consistency::kExact}) {
    nodes_.clear();
    origin_ = std::make_shared<origins::InProcessOrigin>(clock_);
    start({.consistency = consistency});
    for (const Algorithm algorithm : kAllAlgorithms) {
      for (const Count before : kBefore) {
        for (const Count cost : kCosts) {
          SCOPED_TRACE(std::string(to_string(consistency)) + " " +
                       std::string(to_string(algorithm)) + ", cost " + std::to_string(cost) +
                       " after a denial of cost " + std::to_string(before));
          const std::string workspace = std::to_string(before) + "-" + std::to_string(cost);
          const auto ask = [&](size_t node, Count units) {
            Request each = request(algorithm, units);
            each.workspace = workspace;
            return check(node, each).value();
          };
          ASSERT_TRUE(ask(0, 4).admitted());
          clock_.advance(Millis(1234));
          ASSERT_TRUE(ask(0, 6).admitted());
          clock_.advance(Millis(21));
          if (before > 0 && ask(1, before).admitted()) {
            ASSERT_FALSE(ask(1, 10).admitted());
          }
          clock_.advance(Millis(21));
          const MonoTime asked = clock_.now().mono;
          const Verdict denied = ask(1, cost);
          if (denied.admitted()) continue;
          ASSERT_EQ(clock_.now().mono, asked) << "it was answered at once";
          ASSERT_TRUE(denied.retry_after);
          clock_.advance(*denied.retry_after - Millis(1));
          EXPECT_FALSE(ask(1, cost).admitted()) << "1 ms before " << denied.retry_after->count();
          const Nanos rest = asked + *denied.retry_after - clock_.now().mono;
          clock_.advance(std::max(std::chrono::ceil<Millis>(rest), Millis(0)));
          EXPECT_TRUE(ask(1, cost).admitted()) << "after " << denied.retry_after->count();
          clock_.advance(Millis(40'000));
        }
      }
    }
  }
}

// A denial was kept for the capacity of any later answer.
TEST_F(Exact, ADenialIsForgottenWhenTheLimitIsRaised) {
  start({.consistency = Consistency::kConverge});
  for (const Algorithm algorithm : kUnmergeable) {
    SCOPED_TRACE(to_string(algorithm));
    Request each = request(algorithm, 10);
    EXPECT_TRUE(check(0, each)->admitted());
    each.cost = 1;
    EXPECT_FALSE(check(0, each)->admitted());
    const size_t calls = link(0).calls.size();
    EXPECT_FALSE(check(0, each)->admitted());
    EXPECT_EQ(link(0).calls.size(), calls) << "it knows that the origin would deny it";
    each.limit = 100;
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(check(0, each)->admitted()) << i;
  }
}

// What this process admits while the origin is lost.
class Unreported : public Exact {
 protected:
  void SetUp() override { start({.consistency = Consistency::kConverge}); }
  // Admits the cost without the origin.
  void admit_locally(const Request& alone) {
    link(0).reachability = Reach::kNone;
    EXPECT_EQ(check(0, alone)->basis, Basis::kDegraded);
    link(0).reachability = Reach::kPrompt;
  }
  WorkReport tell() {
    Node& node = *nodes_[0];
    const WorkReport report = node.engine->run_replay(clock_.now(), node.executor, Flush::kAll);
    node.executor.run();
    return report;
  }
  [[nodiscard]] Count remaining(Algorithm algorithm) {
    return check(1, peek(algorithm))->remaining;
  }
};

TEST_F(Unreported, IsToldWhenTheOriginIsBack) {
  for (const Algorithm algorithm : kUnmergeable) {
    SCOPED_TRACE(to_string(algorithm));
    admit_locally(request(algorithm, 3));
    EXPECT_EQ(remaining(algorithm), 10u);
    EXPECT_EQ(tell().done, 1u);
    EXPECT_EQ(remaining(algorithm), 7u);
    EXPECT_EQ(tell().done, 0u) << "once";
    EXPECT_EQ(nodes_[0]->engine->stats().unacked, 0u);
  }
}

TEST_F(Unreported, IsToldInFullIfTheBurstIsAboveTheLimit) {
  Request slow = request(Algorithm::kGcra, 500);
  slow.limit = 1;
  slow.burst = 1000;
  admit_locally(slow);
  EXPECT_EQ(tell().done, 1u);
  slow.cost = 0;
  EXPECT_EQ(check(1, slow)->remaining, 500u);
}

TEST_F(Unreported, IsToldAgainAfterAnAnswerWasLostAndChargedOnce) {
  admit_locally(request(Algorithm::kGcra, 3));
  link(0).holds = true;
  (void)tell();
  EXPECT_EQ(nodes_[0]->engine->stats().unacked, 1u);
  EXPECT_EQ(remaining(Algorithm::kGcra), 7u) << "the origin has charged it";
  link(0).held.clear();
  link(0).holds = false;
  clock_.advance(Millis(400));
  nodes_[0]->executor.run();
  EXPECT_EQ(tell().done, 1u);
  EXPECT_EQ(remaining(Algorithm::kGcra), 7u);
  EXPECT_EQ(nodes_[0]->engine->stats().unacked, 0u);
}

// A loss that lasted for long would deny all requests for as long.
TEST_F(Unreported, IsOnlyWhatStillCounts) {
  for (const Algorithm algorithm : kUnmergeable) {
    SCOPED_TRACE(to_string(algorithm));
    for (int i = 0; i < 20; ++i) {
      admit_locally(request(algorithm, 4));
      clock_.advance(Millis(10'000) * 17 / 16 + Millis(1));
    }
    admit_locally(request(algorithm, 3));
    EXPECT_EQ(tell().done, 1u);
    EXPECT_EQ(remaining(algorithm), 7u);
    EXPECT_EQ(nodes_[0]->engine->stats().unacked, 0u);
  }
}

// The rate of a process that decides its share is lower. A count across durations keeps its time to
// drain when the rate changes, so a tuple that was told at that rate would wait for too long.
TEST_F(Unreported, IsToldAtTheWholeRate) {
  for (const bool across : {false, true}) {
    Request whole = request(Algorithm::kGcra, 3);
    whole.identifier = across ? "across" : "one";
    whole.across_durations = across;
    whole.on_origin_loss = OnOriginLoss::kShare;
    admit_locally(whole);
    EXPECT_EQ(tell().done, 1u);
    EXPECT_EQ(link(0).calls.back().limit, 10u);
    EXPECT_EQ(tell().done, 0u) << "once";
    Request next = whole;
    next.cost = 0;
    EXPECT_EQ(check(1, next)->remaining, 7u);
    next.cost = 8;
    EXPECT_EQ(check(1, next)->retry_after, Millis(1000));
  }
}

// A process that found a call without an answer waited for it for ever.
TEST_F(Unreported, DoesNotWaitForACallThatNobodyWaitsFor) {
  link(0).holds = true;
  std::optional<Verdict> late;
  nodes_[0]->engine->check_async(clock_.now(), request(Algorithm::kGcra), nodes_[0]->executor,
                                 [&](auto verdict) { late = *verdict; });
  clock_.advance(Millis(400));
  nodes_[0]->executor.run();
  ASSERT_TRUE(late);
  link(0).held.clear();
  link(0).holds = false;
  admit_locally(request(Algorithm::kGcra, 3));
  EXPECT_EQ(tell().done, 1u);
  // The origin had admitted the late request, and is told of it once more.
  EXPECT_EQ(remaining(Algorithm::kGcra), 5u);
}

}  // namespace
}  // namespace weir::decide
