// A denied batch consumes nothing, whoever decides its items: two engines that share an origin.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/split_mix.h"
#include "decide/all_algorithms_test.h"
#include "decide/engine.h"
#include "memory/slot.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/forwarding_origin.h"
#include "tests/doubles/manual_clock.h"
#include "tests/effort.h"

namespace weir::decide {
namespace {

constexpr Algorithm kKeptByTheOrigin[] = {Algorithm::kGcra, Algorithm::kTokenBucket,
                                          Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog};

bool is_window(Algorithm algorithm) {
  return memory::class_of(algorithm) == memory::CellClass::kWindow;
}

// An origin with heartbeats, so that processes have allowances.
class Endpoint final : public doubles::ForwardingOrigin {
 public:
  using ForwardingOrigin::ForwardingOrigin;
  void decide(std::vector<ExactCall> calls, ExactReply reply) override {
    before_call();
    ForwardingOrigin::decide(std::move(calls), std::move(reply));
  }
  [[nodiscard]] uint32_t live_nodes() const override { return 2; }
  [[nodiscard]] std::optional<Membership> membership() const override { return members; }

  std::optional<Membership> members;
  std::function<void()> before_call = [] {};
};

class DeniedBatch : public ::testing::Test {
 protected:
  static constexpr Millis kDay{86'400'000};
  struct Node {
    Node(const doubles::ManualClock& clock, std::shared_ptr<RegionalOrigin> far_end, uint64_t seed)
        : executor(clock),
          endpoint(std::make_shared<Endpoint>(std::move(far_end))),
          engine(Engine::make(clock, {.origin = endpoint, .capacity = 1 << 16, .seed = seed})) {}
    doubles::ManualExecutor executor;
    std::shared_ptr<Endpoint> endpoint;
    std::shared_ptr<Engine> engine;
  };

  DeniedBatch() {
    beat();
    clock_.advance(Millis(20'000));
    beat();
  }
  // Heartbeats, and what the processes tell the origin.
  void beat() {
    for (Node* node : {&one_, &other_}) {
      node->endpoint->members = {.nodes = 2, .since = began_, .heard_at = clock_.now().mono};
      (void)node->engine->run_replay(clock_.now(), node->executor, Flush::kAll);
      node->executor.run();
    }
  }
  template <typename Answer, typename Start>
  [[nodiscard]] Answer wait(Node& node, const Start& start) {
    std::optional<Answer> received;
    start([&](auto answer) { received = std::move(answer.value()); });
    node.executor.run();
    for (int i = 0; i < 10 && !received; ++i) {  // the origin has just refused a request
      clock_.advance(Millis(20));
      node.executor.run();
    }
    return std::move(received.value());
  }
  Verdict check(Node& node, const Request& request) {
    return wait<Verdict>(node, [&](auto done) {
      node.engine->check_async(clock_.now(), request, node.executor, std::move(done));
    });
  }
  BatchVerdict check_all(Node& node, const std::vector<Request>& requests) {
    return wait<BatchVerdict>(node, [&](auto done) {
      node.engine->check_all_async(clock_.now(), requests, node.executor, std::move(done));
    });
  }
  [[nodiscard]] static Request request(std::string_view identifier, Algorithm algorithm, Count cost,
                                       Consistency consistency) {
    return {.ns = "api",
            .identifier = identifier,
            .limit = 100,
            .duration = kDay,
            .cost = cost,
            .algorithm = algorithm,
            .consistency = consistency};
  }
  void expect_all_is_left(Node& node, Request each) {
    each.cost = each.limit;
    each.consistency = Consistency::kExact;
    EXPECT_TRUE(check(node, each).admitted()) << each.identifier;
  }

  doubles::ManualClock clock_;
  const MonoTime began_ = clock_.now().mono;
  std::shared_ptr<origins::InProcessOrigin> origin_ =
      std::make_shared<origins::InProcessOrigin>(clock_);
  Node one_{clock_, origin_, 1};
  Node other_{clock_, origin_->another_endpoint(), 2};
};

// The windows were charged together with the question about the other items.
TEST_F(DeniedBatch, KeepsNoWindowIfAnItemThatTheOriginKeepsIsUsedUp) {
  for (const Algorithm algorithm : kKeptByTheOrigin) {
    for (const Consistency consistency : {Consistency::kExact, Consistency::kConverge}) {
      const std::string name =
          std::string(to_string(algorithm)) + std::string(to_string(consistency));
      const std::string window = "window " + name;
      const auto full = request(name, algorithm, 100, consistency);
      ASSERT_TRUE(check(other_, full).admitted());
      const auto verdict =
          check_all(one_, {request(window, Algorithm::kFixedWindow, 60, consistency),
                           request(name, algorithm, 1, consistency)});
      EXPECT_EQ(verdict.outcome, Outcome::kDenied);
      EXPECT_EQ(verdict.items[1].outcome, Outcome::kDenied);
      EXPECT_TRUE(verdict.items[1].retry_after.has_value());
      EXPECT_TRUE(verdict.items[0].admitted());
      EXPECT_EQ(verdict.items[0].remaining, 100u);
      expect_all_is_left(other_, request(window, Algorithm::kFixedWindow, 0, consistency));
    }
  }
}

// The origin charged its items, and then this process denied the batch.
TEST_F(DeniedBatch, KeepsNothingIfARelaxedItemIsUsedUp) {
  for (const Algorithm relaxed : kAllAlgorithms) {
    for (const Algorithm algorithm : kAllAlgorithms) {
      for (const Consistency consistency : {Consistency::kExact, Consistency::kConverge}) {
        const std::string name = std::string(to_string(relaxed)) + "+" +
                                 std::string(to_string(algorithm)) +
                                 std::string(to_string(consistency));
        const std::string used = "used " + name;
        ASSERT_TRUE(check(one_, request(used, relaxed, 100, Consistency::kRelaxed)).admitted());
        for (int i = 0; i < 10; ++i) {
          const auto verdict = check_all(one_, {request(name, algorithm, 10, consistency),
                                                request(used, relaxed, 1, Consistency::kRelaxed)});
          EXPECT_EQ(verdict.outcome, Outcome::kDenied);
          EXPECT_TRUE(verdict.items[0].admitted());
          EXPECT_EQ(verdict.items[1].outcome, Outcome::kDenied);
        }
        expect_all_is_left(other_, request(name, algorithm, 0, consistency));
      }
    }
  }
}

// Each of the two would pass alone.
TEST_F(DeniedBatch, KeepsNothingIfItsItemsOnOneTupleExceedTheLimitTogether) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const Request each = request(to_string(algorithm), algorithm, 60, Consistency::kExact);
    EXPECT_EQ(check_all(one_, {each, each}).outcome, Outcome::kDenied);
    expect_all_is_left(other_, each);
  }
}

// Only a denial by the origin says until when. An item was asked about for that, fitted by then,
// and was charged.
TEST_F(DeniedBatch, KeepsNothingOfAnItemThatFitsAgainMeanwhile) {
  Request fast = request("fast", Algorithm::kGcra, 100, Consistency::kExact);
  fast.duration = Millis(100);
  const Request slow = request("slow", Algorithm::kSlidingLog, 100, Consistency::kExact);
  ASSERT_TRUE(check(other_, slow).admitted());
  ASSERT_TRUE(check(other_, fast).admitted());
  one_.endpoint->before_call = [&] { clock_.advance(Millis(50)); };
  Request fast_one = fast;
  fast_one.cost = 60;
  Request slow_one = slow;
  slow_one.cost = 1;
  const auto verdict = check_all(one_, {fast_one, slow_one});
  one_.endpoint->before_call = [] {};
  EXPECT_EQ(verdict.outcome, Outcome::kDenied);
  EXPECT_GT(verdict.items[1].retry_after.value_or(Millis(0)), kDay / 2);
  fast.cost = 0;
  EXPECT_EQ(check(other_, fast).remaining, 100u);
}

// Items of all algorithms and consistencies, some of them on one tuple; one is used up.
TEST_F(DeniedBatch, ConsumesNothingWhoeverDecidesItsItems) {
  uint64_t random = 1;
  const auto draw = [&](uint64_t below) { return base::split_mix(random) % below; };
  const uint64_t cases = generated_cases(3000);
  uint64_t denied = 0;
  for (uint64_t i = 0; i < cases; ++i) {
    beat();
    std::vector<std::string> names;
    std::vector<Request> items;
    const uint64_t size = 2 + draw(3);
    names.reserve(size);
    for (uint64_t k = 0; k < size; ++k) {
      constexpr Consistency kConsistencies[] = {Consistency::kRelaxed, Consistency::kConverge,
                                                Consistency::kExact};
      constexpr Count kCosts[] = {0, 1, 1, 10, 40, 60, 100};
      if (k > 0 && draw(6) == 0) {
        Request again = items[draw(k)];
        again.cost = kCosts[draw(7)];
        items.push_back(again);
        continue;
      }
      names.push_back(std::to_string(i) + "-" + std::to_string(k));
      items.push_back(
          request(names.back(), kAllAlgorithms[draw(6)], kCosts[draw(7)], kConsistencies[draw(3)]));
    }
    // The state of a relaxed item is in the process.
    const auto is_local = [](const Request& each) {
      return each.consistency == Consistency::kRelaxed && !is_window(each.algorithm);
    };
    std::map<std::string_view, Count> used;
    for (const Request& each : items) {
      Request first = each;
      first.cost = 1;
      if (used.count(each.identifier) > 0 || draw(2) == 0) continue;
      ASSERT_TRUE(check(one_, first).admitted());
      used[each.identifier] = 1;
    }
    if (draw(10) > 0) {
      Request full = items[draw(items.size())];
      full.cost = full.limit - used[full.identifier];
      const bool here = full.consistency == Consistency::kRelaxed || draw(2) == 0;
      if (!is_local(full) && full.consistency != Consistency::kRelaxed) {
        full.consistency = Consistency::kExact;
      }
      ASSERT_TRUE(check(here ? one_ : other_, full).admitted());
      used[full.identifier] = full.limit;
    }
    if (draw(4) == 0) beat();
    if (check_all(one_, items).admitted()) continue;
    ++denied;
    std::set<std::string_view> seen;
    for (const Request& each : items) {
      if (used[each.identifier] == each.limit || !seen.insert(each.identifier).second) continue;
      Request rest = each;
      rest.cost = each.limit - used[each.identifier];
      if (!is_local(each)) rest.consistency = Consistency::kExact;
      Node& node = is_local(each) || draw(2) == 0 ? one_ : other_;
      ASSERT_TRUE(check(node, rest).admitted())
          << "batch " << i << ": " << each.identifier << " " << to_string(each.algorithm) << " "
          << to_string(*each.consistency) << (&node == &one_ ? " here" : " at the other");
    }
  }
  EXPECT_GT(denied, cases / 3);
}

using AdmittedBatch = DeniedBatch;

// A ring or a log was charged the item of the origin with the relaxed one, and again after the
// batch.
TEST_F(AdmittedBatch, ChargesAnItemThatTheOriginDecidesOnceBesideARelaxedOneOnItsTuple) {
  for (const Algorithm algorithm : {Algorithm::kGcra, Algorithm::kTokenBucket,
                                    Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog}) {
    const std::string name = "both-" + std::string(to_string(algorithm));
    const Request asked = request(name, algorithm, 10, Consistency::kConverge);
    const Request relaxed = request(name, algorithm, 5, Consistency::kRelaxed);
    for (const bool asked_first : {true, false}) {
      const Count before =
          check(one_, request(name, algorithm, 0, Consistency::kRelaxed)).remaining;
      const std::vector<Request> items =
          asked_first ? std::vector{asked, relaxed} : std::vector{relaxed, asked};
      EXPECT_TRUE(check_all(one_, items).admitted()) << name;
      const Count left = check(one_, request(name, algorithm, 0, Consistency::kRelaxed)).remaining;
      EXPECT_EQ(before - left, 15u) << name;
    }
  }
}

}  // namespace
}  // namespace weir::decide
