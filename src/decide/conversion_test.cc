// A request with an algorithm of another class takes over what was used: every ordered pair.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "decide/all_algorithms_test.h"
#include "decide/engine.h"
#include "decide/lossy_link_test.h"
#include "memory/conversion.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/manual_clock.h"

namespace weir::decide {
namespace {

constexpr Millis kConvertedPeriod{16'000};  // sixteenths are whole seconds
constexpr Count kConvertedLimit = 16;

Request conversion_request(Algorithm algorithm, Count cost = 1) {
  return {.ns = "api",
          .identifier = "alice",
          .limit = kConvertedLimit,
          .duration = kConvertedPeriod,
          .cost = cost,
          .algorithm = algorithm};
}

// The longest wait after a full use.
Millis longest_wait(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kSlidingWindow: return 2 * kConvertedPeriod;
    case Algorithm::kSlidingWindowStrict: return kConvertedPeriod + kConvertedPeriod / 16;
    case Algorithm::kGcra:
    case Algorithm::kTokenBucket:
      return kConvertedPeriod / static_cast<int64_t>(kConvertedLimit) + Millis(1);
    case Algorithm::kFixedWindow:
    case Algorithm::kSlidingLog: break;
  }
  return kConvertedPeriod;
}

using AlgorithmPair = std::tuple<Algorithm, Algorithm>;

// All of them, or those to one class.
std::vector<AlgorithmPair> pairs_of_two_classes(
    std::optional<memory::CellClass> to_class = std::nullopt) {
  std::vector<AlgorithmPair> pairs;
  for (const Algorithm from : kAllAlgorithms) {
    for (const Algorithm to : kAllAlgorithms) {
      if (memory::class_of(from) == memory::class_of(to)) continue;
      if (!to_class || memory::class_of(to) == *to_class) pairs.emplace_back(from, to);
    }
  }
  return pairs;
}

std::string name_of_pair(const ::testing::TestParamInfo<AlgorithmPair>& pair) {
  return std::string(to_string(std::get<0>(pair.param))) + "_to_" +
         std::string(to_string(std::get<1>(pair.param)));
}

class Conversion : public ::testing::TestWithParam<AlgorithmPair> {
 protected:
  Conversion() { clock_.advance(Millis(3000)); }

  [[nodiscard]] Algorithm from() const { return std::get<0>(GetParam()); }
  [[nodiscard]] Algorithm to() const { return std::get<1>(GetParam()); }
  Verdict ask(const Request& request) { return *engine_->check(clock_.now(), request); }
  Verdict ask(Algorithm algorithm, Count cost) { return ask(conversion_request(algorithm, cost)); }
  void pass(Millis time) {
    clock_.advance(time);
    (void)engine_->run_sweep(clock_.now(), 10'000);
  }

  doubles::ManualClock clock_;
  std::shared_ptr<Engine> engine_ = Engine::make(clock_, Options{.capacity = 1000, .seed = 1});
};
INSTANTIATE_TEST_SUITE_P(EveryPair, Conversion, ::testing::ValuesIn(pairs_of_two_classes()),
                         name_of_pair);

TEST_P(Conversion, DeniesAfterAFullUseAndAdmitsAtTheRetryTime) {
  ASSERT_TRUE(ask(from(), kConvertedLimit).admitted());
  const Verdict denied = ask(to(), 1);
  ASSERT_EQ(denied.outcome, Outcome::kDenied);
  EXPECT_EQ(denied.remaining, 0u);
  EXPECT_EQ(denied.basis, Basis::kLocal);
  ASSERT_TRUE(denied.retry_after);
  EXPECT_LE(*denied.retry_after, longest_wait(to()));
  clock_.advance(*denied.retry_after - Millis(1));
  EXPECT_FALSE(ask(to(), 1).admitted());
  clock_.advance(Millis(1));
  EXPECT_TRUE(ask(to(), 1).admitted());
}

TEST_P(Conversion, LeavesTheOtherHalfOfTheLimit) {
  ASSERT_TRUE(ask(from(), kConvertedLimit / 2).admitted());
  EXPECT_EQ(ask(to(), 0).remaining, kConvertedLimit / 2);
  EXPECT_FALSE(ask(to(), kConvertedLimit / 2 + 1).admitted());
  const Verdict admitted = ask(to(), kConvertedLimit / 2);
  EXPECT_TRUE(admitted.admitted());
  EXPECT_EQ(admitted.remaining, 0u);
}

TEST_P(Conversion, PeeksAsTheFirstRequestIsDecided) {
  ASSERT_TRUE(ask(from(), 5).admitted());
  clock_.advance(Millis(2500));
  const Verdict peek = ask(to(), 0);
  const uint64_t tuples = engine_->stats().tuples;
  const Verdict denied = ask(to(), kConvertedLimit);
  EXPECT_EQ(engine_->stats().tuples, tuples + 1);
  ASSERT_EQ(denied.outcome, Outcome::kDenied);
  EXPECT_EQ(peek.remaining, denied.remaining);
  EXPECT_EQ(peek.reset, denied.reset);
}

TEST_P(Conversion, TakesAtMostTheCapacityOfTheRequest) {
  Request request = conversion_request(from(), 100);
  request.limit = 100;
  ASSERT_TRUE(ask(request).admitted());
  const Verdict denied = ask(to(), 1);
  ASSERT_EQ(denied.outcome, Outcome::kDenied);
  clock_.advance(longest_wait(to()));
  EXPECT_TRUE(ask(to(), 1).admitted());
}

TEST_P(Conversion, TakesNothingThatHasExpired) {
  ASSERT_TRUE(ask(from(), kConvertedLimit).admitted());
  clock_.advance(2 * kConvertedPeriod);
  EXPECT_EQ(ask(to(), 1).remaining, kConvertedLimit - 1);
}

TEST_P(Conversion, HappensOnceForAPairThatIsUsedSideBySide) {
  ASSERT_TRUE(ask(from(), 1).admitted());
  EXPECT_EQ(ask(to(), 1).remaining, kConvertedLimit - 2);
  const auto keep_in_use = [&](Algorithm algorithm) {
    // A little more than the rate, so that a backlog is never empty.
    for (Millis passed{0}; passed < 3 * kConvertedPeriod; passed += Millis(950)) {
      pass(Millis(950));
      (void)ask(algorithm, 1);
    }
    EXPECT_EQ(engine_->stats().tuples, 1u);
  };
  keep_in_use(from());
  EXPECT_EQ(ask(to(), 1).remaining, kConvertedLimit - 1);
  keep_in_use(to());
  EXPECT_EQ(ask(from(), 1).remaining, kConvertedLimit - 1);
  keep_in_use(from());
  EXPECT_EQ(ask(to(), 1).remaining, kConvertedLimit - 1);
}

TEST_P(Conversion, HappensAgainWhenTheAlgorithmIsChangedBack) {
  ASSERT_TRUE(ask(from(), 2).admitted());
  ASSERT_TRUE(ask(to(), 1).admitted());
  pass(3 * kConvertedPeriod);
  ASSERT_TRUE(ask(to(), kConvertedLimit).admitted());
  EXPECT_EQ(ask(from(), 1).outcome, Outcome::kDenied);
}

TEST_P(Conversion, KeepsTheCountsOfATupleThatExists) {
  ASSERT_TRUE(ask(from(), 2).admitted());
  ASSERT_TRUE(ask(to(), 5).admitted());
  EXPECT_EQ(ask(from(), 1).remaining, kConvertedLimit - 3);
}

TEST_P(Conversion, NeedsTheSameNamesAndDuration) {
  ASSERT_TRUE(ask(from(), kConvertedLimit).admitted());
  Request other = conversion_request(to());
  other.identifier = "bob";
  EXPECT_EQ(ask(other).remaining, kConvertedLimit - 1);
  other = conversion_request(to());
  other.ns = "web";
  EXPECT_EQ(ask(other).remaining, kConvertedLimit - 1);
  other = conversion_request(to());
  other.workspace = "acme";
  EXPECT_EQ(ask(other).remaining, kConvertedLimit - 1);
  other = conversion_request(to());
  other.duration = 2 * kConvertedPeriod;
  EXPECT_EQ(ask(other).remaining, kConvertedLimit - 1);
  EXPECT_FALSE(ask(to(), 1).admitted());
}

// Only a backlog can be counted across durations: `validate` rejects the other classes.
class ConversionToBacklog : public Conversion {};
INSTANTIATE_TEST_SUITE_P(EveryPair, ConversionToBacklog,
                         ::testing::ValuesIn(pairs_of_two_classes(memory::CellClass::kBacklog)),
                         name_of_pair);

TEST_P(ConversionToBacklog, TakesNoPartInCountsAcrossDurations) {
  ASSERT_TRUE(ask(from(), kConvertedLimit).admitted());
  Request any = conversion_request(to());
  any.across_durations = true;
  EXPECT_EQ(ask(any).remaining, kConvertedLimit - 1);
  clock_.advance(Millis(0));
  any.cost = kConvertedLimit - 1;
  ASSERT_TRUE(ask(any).admitted());
  Request ring = conversion_request(Algorithm::kSlidingWindowStrict);
  ring.duration = 2 * kConvertedPeriod;
  EXPECT_EQ(ask(ring).remaining, kConvertedLimit - 1);
}

TEST_P(Conversion, DeniesABatchAfterAFullUse) {
  ASSERT_TRUE(ask(from(), kConvertedLimit).admitted());
  Request other = conversion_request(to());
  other.identifier = "bob";
  const Request both[] = {other, conversion_request(to())};
  const BatchVerdict verdict = *engine_->check_all(clock_.now(), both);
  EXPECT_EQ(verdict.outcome, Outcome::kDenied);
  EXPECT_EQ(verdict.items[0].remaining, kConvertedLimit);
  EXPECT_EQ(verdict.items[1].remaining, 0u);
}

TEST_P(Conversion, DoesNotCountABatchOfBothTwice) {
  const Request both[] = {conversion_request(from(), kConvertedLimit),
                          conversion_request(to(), kConvertedLimit)};
  EXPECT_EQ(engine_->check_all(clock_.now(), both)->outcome, Outcome::kAdmitted);
}

TEST_P(Conversion, DoesNotFollowAReset) {
  ASSERT_TRUE(ask(from(), kConvertedLimit).admitted());
  (void)engine_->reset(clock_.now(), conversion_request(to()));
  EXPECT_EQ(ask(to(), 1).remaining, kConvertedLimit - 1);
}

// Three engines that share an origin.
class SharedConversion : public ::testing::TestWithParam<AlgorithmPair> {
 protected:
  static constexpr size_t kNodes = 3;
  struct Node {
    explicit Node(const doubles::ManualClock& clock) : executor(clock) {}
    doubles::ManualExecutor executor;
    std::shared_ptr<LossyLink> link;
    std::shared_ptr<Engine> engine;
  };

  SharedConversion() { clock_.advance(Millis(3000)); }
  void start(Consistency consistency) {
    for (size_t i = 0; i < kNodes; ++i) {
      Node& node = *nodes_.emplace_back(std::make_unique<Node>(clock_));
      Options options{.capacity = 1000, .seed = i + 1};
      node.link = std::make_shared<LossyLink>(origin_->another_endpoint());
      options.origin = node.link;
      options.consistency = consistency;
      node.engine = Engine::make(clock_, options);
    }
  }
  [[nodiscard]] Algorithm from() const { return std::get<0>(GetParam()); }
  [[nodiscard]] Algorithm to() const { return std::get<1>(GetParam()); }

  template <typename Answer>
  Answer wait_for(Node& node, std::optional<Answer>& received) {
    node.executor.run();
    for (int i = 0; i < 10 && !received; ++i) {  // the origin has just refused a request
      clock_.advance(Millis(20));
      node.executor.run();
    }
    return std::move(received.value());
  }
  Verdict ask(size_t index, Algorithm algorithm, Count cost) {
    Node& node = *nodes_[index];
    std::optional<Verdict> received;
    node.engine->check_async(clock_.now(), conversion_request(algorithm, cost), node.executor,
                             [&](Result<Verdict> verdict) { received = *verdict; });
    return wait_for(node, received);
  }
  BatchVerdict ask_all(size_t index, const std::vector<Request>& requests) {
    Node& node = *nodes_[index];
    std::optional<BatchVerdict> received;
    node.engine->check_all_async(
        clock_.now(), requests, node.executor,
        [&](Result<BatchVerdict> verdict) { received = std::move(*verdict); });
    return wait_for(node, received);
  }
  // Each node asks until it is denied.
  Count admitted_by_all(Algorithm algorithm) {
    Count admitted = 0;
    for (size_t node = 0; node < kNodes; ++node) {
      while (ask(node, algorithm, 1).admitted()) ++admitted;
    }
    return admitted;
  }
  void replay() {
    for (const auto& node : nodes_) {
      (void)node->engine->run_replay(clock_.now(), node->executor, Flush::kAll);
      node->executor.run();
    }
  }
  // What was taken over into the current window of the tuple.
  [[nodiscard]] Count converted() const {
    const memory::TupleKey key(conversion_request(to()), base::KeyedHash(1));
    const auto at = algorithms::position_of(clock_.now().wall, kConvertedPeriod);
    return origin_->components({key.encoded(), at.sequence})[kConverted];
  }

  doubles::ManualClock clock_;
  std::shared_ptr<origins::InProcessOrigin> origin_ =
      std::make_shared<origins::InProcessOrigin>(clock_);
  std::vector<std::unique_ptr<Node>> nodes_;
};
INSTANTIATE_TEST_SUITE_P(EveryPair, SharedConversion, ::testing::ValuesIn(pairs_of_two_classes()),
                         name_of_pair);

TEST_P(SharedConversion, DeniesOnEveryNodeAfterAFullUse) {
  start(Consistency::kConverge);
  ASSERT_TRUE(ask(0, from(), 6).admitted());
  ASSERT_TRUE(ask(1, from(), 5).admitted());
  ASSERT_TRUE(ask(2, from(), 5).admitted());
  for (size_t node = 0; node < kNodes; ++node) {
    const Verdict denied = ask(node, to(), 1);
    EXPECT_EQ(denied.outcome, Outcome::kDenied) << node;
    EXPECT_EQ(denied.remaining, 0u);
  }
  clock_.advance(longest_wait(to()));
  EXPECT_TRUE(ask(1, to(), 1).admitted());
}

TEST_P(SharedConversion, LeavesTheOtherHalfOfTheLimitToAllNodesTogether) {
  start(Consistency::kConverge);
  ASSERT_TRUE(ask(0, from(), 3).admitted());
  ASSERT_TRUE(ask(1, from(), 3).admitted());
  ASSERT_TRUE(ask(2, from(), 2).admitted());
  // The first node did not know of the others.
  EXPECT_EQ(admitted_by_all(to()), kConvertedLimit / 2);
  if (memory::class_of(to()) == memory::CellClass::kWindow) {
    EXPECT_EQ(converted(), kConvertedLimit / 2);
  }
}

TEST_P(SharedConversion, CountsTheSameUsageOnceIfNodesDecideAlone) {
  start(Consistency::kRelaxed);
  ASSERT_TRUE(ask(0, from(), 8).admitted());
  replay();
  for (size_t node = 0; node < kNodes; ++node) (void)ask(node, from(), 0);
  ASSERT_TRUE(ask(0, to(), 1).admitted());
  replay();
  EXPECT_EQ(ask(0, to(), 0).remaining, kConvertedLimit / 2 - 1);
  if (memory::class_of(to()) != memory::CellClass::kWindow) return;
  EXPECT_EQ(ask(1, to(), 1).remaining, kConvertedLimit / 2 - 2);
  EXPECT_EQ(ask(2, to(), 0).remaining, kConvertedLimit / 2 - 1);  // node 1 has not replayed yet
  EXPECT_EQ(converted(), kConvertedLimit / 2);
}

TEST_P(SharedConversion, DeniesABatchAfterAFullUse) {
  start(Consistency::kConverge);
  ASSERT_TRUE(ask(0, from(), 6).admitted());
  ASSERT_TRUE(ask(1, from(), 5).admitted());
  ASSERT_TRUE(ask(2, from(), 5).admitted());
  Request other = conversion_request(to());
  other.identifier = "bob";
  for (size_t node = 0; node < kNodes; ++node) {
    const BatchVerdict verdict = ask_all(node, {other, conversion_request(to())});
    EXPECT_EQ(verdict.outcome, Outcome::kDenied);
    EXPECT_TRUE(verdict.items[0].admitted());
    EXPECT_EQ(verdict.items[1].remaining, 0u);
  }
}

TEST_P(SharedConversion, HappensOnceForAPairThatIsUsedSideBySide) {
  start(Consistency::kConverge);
  ASSERT_TRUE(ask(0, from(), 1).admitted());
  EXPECT_EQ(ask(0, to(), 1).remaining, kConvertedLimit - 2);
  for (Millis passed{0}; passed < 3 * kConvertedPeriod; passed += Millis(950)) {
    clock_.advance(Millis(950));
    (void)nodes_[0]->engine->run_sweep(clock_.now(), 10'000);
    (void)ask(0, from(), 1);
  }
  EXPECT_EQ(nodes_[0]->engine->stats().tuples, 1u);
  EXPECT_EQ(ask(0, to(), 1).remaining, kConvertedLimit - 1);
}

TEST_P(SharedConversion, IsToldAgainIfAnAnswerIsLost) {
  for (int lost = 1; lost <= 3; ++lost) {
    nodes_.clear();
    origin_->clear();
    start(Consistency::kExact);
    ASSERT_TRUE(ask(0, from(), 6).admitted());
    nodes_[0]->link->lost_answers = lost;
    const Verdict first = ask(0, to(), 1);
    if (lost == 1 && memory::class_of(from()) == memory::CellClass::kWindow) {
      EXPECT_EQ(first.basis, Basis::kDegraded) << "decided without the counts it takes over";
    }
    // A verdict without an answer is decided on a quarter of the limit, which is used up.
    const Count admitted = (first.admitted() ? 1 : 0) + admitted_by_all(to());
    EXPECT_LE(admitted, kConvertedLimit - 6) << lost;
    EXPECT_GE(admitted + static_cast<Count>(lost), kConvertedLimit - 6) << lost;
    clock_.advance(4 * kConvertedPeriod);
  }
}

TEST_P(SharedConversion, IsLocalWhileTheOriginIsLost) {
  start(Consistency::kConverge);
  ASSERT_TRUE(ask(0, from(), kConvertedLimit).admitted());
  nodes_[0]->link->reachability = Reach::kNone;
  const Verdict denied = ask(0, to(), 1);
  EXPECT_EQ(denied.outcome, Outcome::kDenied);
  // The known counts of a window deny without a question.
  const bool is_window = memory::class_of(to()) == memory::CellClass::kWindow;
  EXPECT_EQ(denied.basis, is_window ? Basis::kLocal : Basis::kDegraded);
  // A node that does not know the key takes nothing over.
  EXPECT_TRUE(ask(1, to(), 1).admitted());
  nodes_[0]->link->reachability = Reach::kPrompt;
  clock_.advance(Millis(300));
  EXPECT_FALSE(ask(0, to(), 1).admitted());
}

TEST(ConversionOnce, TakesTheLargestOfSeveral) {
  doubles::ManualClock clock;
  const auto engine = Engine::make(clock, Options{.capacity = 1000, .seed = 1});
  const auto remaining = [&](Algorithm algorithm, Count cost) {
    return engine->check(clock.now(), conversion_request(algorithm, cost))->remaining;
  };
  EXPECT_EQ(remaining(Algorithm::kSlidingLog, 3), 13u);
  EXPECT_EQ(remaining(Algorithm::kGcra, 4), 9u);                 // 3 and 4
  EXPECT_EQ(remaining(Algorithm::kFixedWindow, 0), 9u);          // 7, not 3
  EXPECT_EQ(remaining(Algorithm::kSlidingWindowStrict, 1), 8u);  // 7 and 1
}

TEST(ConversionOnce, FollowsARestoredState) {
  doubles::ManualClock clock;
  const auto first = Engine::make(clock, Options{.capacity = 1000, .seed = 1});
  const auto second = Engine::make(clock, Options{.capacity = 1000, .seed = 2});
  ASSERT_TRUE(
      first->check(clock.now(), conversion_request(Algorithm::kGcra, kConvertedLimit))->admitted());
  (void)first->save(clock.now(), Saving::kAll, [&](std::string_view record) {
    EXPECT_TRUE(second->restore(clock.now(), record));
  });
  EXPECT_FALSE(
      second->check(clock.now(), conversion_request(Algorithm::kSlidingWindow))->admitted());
}

}  // namespace
}  // namespace weir::decide
