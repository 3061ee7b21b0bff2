// The wall clock of one process is set by an hour and set back, while it has admissions that it has
// not told the origin. docs/origin.md, "Accuracy", states what is lost.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decide/engine.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/forwarding_origin.h"
#include "tests/doubles/manual_clock.h"

namespace weir::regional {
namespace {

// An origin with heartbeats, so that processes have allowances.
class Endpoint final : public doubles::ForwardingOrigin {
 public:
  using ForwardingOrigin::ForwardingOrigin;
  [[nodiscard]] uint32_t live_nodes() const override { return 2; }
  [[nodiscard]] std::optional<Membership> membership() const override { return members; }

  std::optional<Membership> members;
};

class ClockStep : public ::testing::Test {
 protected:
  static constexpr Count kLimit = 800;
  struct Node {
    Node(std::shared_ptr<RegionalOrigin> far_end, uint64_t seed)
        : endpoint(std::make_shared<Endpoint>(std::move(far_end))),
          engine(
              decide::Engine::make(clock, {.origin = endpoint, .capacity = 1024, .seed = seed})) {}
    doubles::ManualClock clock;
    doubles::ManualExecutor executor{clock};
    std::shared_ptr<Endpoint> endpoint;
    std::shared_ptr<decide::Engine> engine;
  };

  ClockStep() {
    tell();
    pass(Millis(20'000));
    tell();
  }
  void pass(Millis time) {
    origin_clock_.advance(time);
    for (Node* node : {&one_, &other_}) node->clock.advance(time);
  }
  // Heartbeats, and what the processes tell the origin.
  void tell() {
    for (Node* node : {&one_, &other_}) {
      const Instant now = node->clock.now();
      node->endpoint->members = {.nodes = 2, .since = began_, .heard_at = now.mono};
      (void)node->engine->run_replay(now, node->executor, Flush::kAll);
      node->executor.run();
    }
  }
  Verdict check(Node& node, std::string_view identifier, Consistency consistency) {
    const Request request{.ns = "api",
                          .identifier = identifier,
                          .limit = kLimit,
                          .duration = Millis(60'000),
                          .cost = 1,
                          .algorithm = Algorithm::kFixedWindow,
                          .consistency = consistency};
    std::optional<Verdict> received;
    node.engine->check_async(node.clock.now(), request, node.executor,
                             [&](const auto& verdict) { received = verdict.value(); });
    node.executor.run();
    for (int i = 0; i < 10 && !received; ++i) {
      pass(Millis(20));
      node.executor.run();
    }
    return received.value();
  }
  struct Total {
    Count admitted = 0;   // in the window, by both processes
    Count by_itself = 0;  // by one process before its clock was set, without the origin
  };
  Total admit_around_a_step(Millis by, Consistency consistency) {
    const std::string identifier = std::to_string(++identifiers_);
    Total total;
    // Fewer than its allowance: the next step would tell the origin of them.
    for (Count i = 0; i < kLimit / 8 - 5; ++i) {
      const Verdict verdict = check(one_, identifier, consistency);
      EXPECT_TRUE(verdict.admitted());
      ++total.admitted;
      total.by_itself += verdict.basis == Basis::kLocal ? 1 : 0;
    }
    one_.clock.step_wall(by);
    EXPECT_TRUE(check(one_, identifier, consistency).admitted());  // in another window
    one_.clock.step_wall(-by);
    for (Count i = 0; i < kLimit; ++i) {
      for (Node* node : {&one_, &other_}) {
        total.admitted += check(*node, identifier, consistency).admitted() ? 1 : 0;
        if (i % 4 == 0) tell();
      }
    }
    return total;
  }

  doubles::ManualClock origin_clock_;
  const MonoTime began_ = origin_clock_.now().mono;
  std::shared_ptr<origins::InProcessOrigin> origin_ =
      std::make_shared<origins::InProcessOrigin>(origin_clock_);
  Node one_{origin_, 1};
  Node other_{origin_->another_endpoint(), 2};
  int identifiers_ = 0;
};

TEST_F(ClockStep, LosesAtMostWhatAProcessMayAdmitByItself) {
  for (const Millis by : {Millis(3'600'000), Millis(-3'600'000)}) {
    const Total total = admit_around_a_step(by, Consistency::kConverge);
    EXPECT_GT(total.by_itself, kLimit / 10);
    EXPECT_GE(total.admitted, kLimit);
    EXPECT_LE(total.admitted, kLimit + total.by_itself);
  }
}

TEST_F(ClockStep, LosesNothingThatTheOriginAdmitted) {
  for (const Millis by : {Millis(3'600'000), Millis(-3'600'000)}) {
    EXPECT_EQ(admit_around_a_step(by, Consistency::kExact).admitted, kLimit);
  }
}

// The older of the two windows that it tells is the current one.
TEST_F(ClockStep, AReplayKeepsATupleFreshWhoseNewestWindowIsAhead) {
  constexpr Millis kWindow{60'000};
  pass(2 * kWindow - one_.clock.now().wall.time_since_epoch() % kWindow - Millis(20'000));
  (void)check(one_, "ahead", Consistency::kRelaxed);
  one_.clock.step_wall(Millis(25'000));
  (void)check(one_, "ahead", Consistency::kRelaxed);
  one_.clock.step_wall(-Millis(25'000));
  pass(Millis(10'000));  // longer than a read is fresh
  tell();
  EXPECT_EQ(check(one_, "ahead", Consistency::kRelaxed).basis, Basis::kLocal);
}

}  // namespace
}  // namespace weir::regional
