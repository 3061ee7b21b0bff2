// A flood of keys resets no tuple and denies no other tuple.

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
#include "tests/doubles/scripted_origin.h"

namespace weir::decide {
namespace {

constexpr int kCapacity = 2000;

Request flood_request(std::string_view identifier, Count limit = 20) {
  return {.ns = "api", .identifier = identifier, .limit = limit, .duration = Millis(60'000)};
}

class Flood : public ::testing::Test {
 protected:
  void flood(Engine& engine) {
    for (int i = 0; i < 10 * kCapacity; ++i) {
      (void)engine.check(clock_.now(), flood_request("flood-" + std::to_string(i)));
      if (i % 100 == 0) engine.run_replay(clock_.now(), executor_);
    }
  }
  bool passes(Engine& engine, std::string_view identifier) {
    return engine.check(clock_.now(), flood_request(identifier))->admitted();
  }
  doubles::ManualClock clock_;
  doubles::ManualExecutor executor_{clock_};
};

TEST_F(Flood, ResetsNoTupleAndDeniesNoOtherWithoutAnOrigin) {
  const auto owner = Engine::make(clock_, Options{.capacity = kCapacity, .seed = 1});
  Engine& engine = *owner;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(passes(engine, "at-its-limit"));
  ASSERT_TRUE(passes(engine, "regular"));
  flood(engine);
  EXPECT_FALSE(passes(engine, "at-its-limit"));
  EXPECT_TRUE(passes(engine, "regular"));
  int denied = 0;
  for (int i = 0; i < 200; ++i) denied += !passes(engine, "new-" + std::to_string(i));
  EXPECT_EQ(denied, 0);
  // The sketch counts new tuples, reports that, and enforces their limits.
  const auto verdict = engine.check(clock_.now(), flood_request("new-1"));
  EXPECT_EQ(verdict->basis, Basis::kDegraded);
  int admitted = 0;
  for (int i = 0; i < 100; ++i) admitted += passes(engine, "greedy");
  EXPECT_LE(admitted, 20);
  EXPECT_GT(admitted, 0);
  EXPECT_GT(engine.stats().sketched, 0u);
  EXPECT_EQ(engine.stats().evicted, 0u);
  EXPECT_LE(engine.stats().tuples, static_cast<uint64_t>(kCapacity) * 5 / 4 + 16);
}

// Tuples of a wrong future do not expire, so the table stays full after the clock was corrected.
TEST_F(Flood, DoesNotDenyATupleOfAWrongFutureInAFullTable) {
  const auto owner = Engine::make(clock_, Options{.capacity = kCapacity, .seed = 1});
  Engine& engine = *owner;
  constexpr Millis kAhead{7'200'000};
  clock_.step_wall(kAhead);
  flood(engine);
  ASSERT_GT(engine.stats().sketched, 0u);
  clock_.step_wall(-kAhead);
  int denied = 0;
  for (int i = 0; i < 200; ++i) denied += !passes(engine, "flood-" + std::to_string(i));
  EXPECT_EQ(denied, 0);
}

TEST_F(Flood, KeepsTheCountsOfTheSketchWhenASlotBecomesFree) {
  const auto owner = Engine::make(clock_, Options{.capacity = kCapacity, .seed = 1});
  Engine& engine = *owner;
  // Fill the table with tuples of a short window, so that they expire first.
  for (int i = 0; i < 3 * kCapacity; ++i) {
    const std::string name = "short-" + std::to_string(i);
    Request request = flood_request(name);
    request.duration = Millis(1000);
    (void)engine.check(clock_.now(), request);
  }
  // A tuple without a slot.
  std::string greedy;
  int admitted = 1;
  for (int i = 0; greedy.empty(); ++i) {
    const std::string name = "greedy-" + std::to_string(i);
    const auto verdict = engine.check(clock_.now(), flood_request(name));
    if (verdict->admitted() && verdict->basis == Basis::kDegraded) greedy = name;
  }
  for (int i = 0; i < 100; ++i) admitted += passes(engine, greedy);
  clock_.advance(Millis(3000));
  EXPECT_GE(engine.run_sweep(clock_.now(), 10 * kCapacity).done, static_cast<size_t>(kCapacity));
  for (int i = 0; i < 100; ++i) admitted += passes(engine, greedy);
  EXPECT_LE(admitted, 20);
  // Once the windows in the sketch end, it gets a slot and its whole limit.
  clock_.advance(Millis(120'000));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(passes(engine, greedy));
  EXPECT_EQ(engine.check(clock_.now(), flood_request(greedy))->basis, Basis::kLocal);
}

// The decisions of states wait until release().
class HeldDecisions final : public doubles::ForwardingOrigin {
 public:
  using ForwardingOrigin::ForwardingOrigin;
  void decide(std::vector<ExactCall> calls, ExactReply reply) override {
    ForwardingOrigin::decide(std::move(calls), [this, reply = std::move(reply)](auto answers) {
      held_.emplace_back(std::move(reply), std::move(answers));
    });
  }
  void release() {
    for (auto& [reply, answers] : std::exchange(held_, {})) reply(std::move(answers));
  }

 private:
  std::vector<std::pair<ExactReply, Result<std::vector<ExactAnswer>>>> held_;
};

// Regression: it was charged at the time of the batch, before what had been used since, and had
// drained at once.
TEST_F(Flood, ATupleThatWasRemovedWhileItsBatchWaitedIsChargedAtThePresent) {
  const auto origin =
      std::make_shared<HeldDecisions>(std::make_shared<origins::InProcessOrigin>(clock_));
  const auto owner = Engine::make(clock_, {.origin = origin, .capacity = kCapacity, .seed = 1});
  Engine& engine = *owner;
  const auto relaxed = [](std::string_view identifier, Count cost) {
    return Request{.ns = "api",
                   .identifier = identifier,
                   .limit = 10,
                   .duration = Millis(100),
                   .cost = cost,
                   .algorithm = Algorithm::kGcra,
                   .consistency = Consistency::kRelaxed};
  };
  Request other = flood_request("other");
  other.algorithm = Algorithm::kSlidingLog;
  std::optional<bool> admitted;
  engine.check_all_async(
      clock_.now(), std::vector{other, relaxed("client", 5)}, executor_,
      [&](const Result<BatchVerdict>& verdict) { admitted = verdict->admitted(); });
  executor_.run();
  ASSERT_FALSE(admitted);
  EXPECT_TRUE(engine.check(clock_.now(), relaxed("client", 10))->admitted());
  clock_.advance(Millis(110));
  // All these drain while they come, so each makes space for another one.
  for (int i = 0; i < 10 * kCapacity; ++i) {
    (void)engine.check(clock_.now(), relaxed("flood-" + std::to_string(i), 1));
    if (i % 200 == 0) clock_.advance(Millis(1));
  }
  for (int i = 0; i < 10 && !admitted; ++i) {
    origin->release();
    executor_.run();
  }
  ASSERT_TRUE(admitted.value_or(false));
  EXPECT_FALSE(engine.check(clock_.now(), relaxed("client", 6))->admitted());
  EXPECT_TRUE(engine.check(clock_.now(), relaxed("client", 5))->admitted());
}

TEST_F(Flood, EvictsOnlyAcknowledgedCountsAndReadsThemAgain) {
  const auto owner =
      Engine::make(clock_, {.origin = std::make_shared<origins::InProcessOrigin>(clock_),
                            .replay_within = Millis(0),
                            .capacity = kCapacity,
                            .seed = 1});
  Engine& engine = *owner;
  // Partly used, acknowledged by the origin, and evicted by the flood.
  const auto ask = [&](std::string_view identifier, Count cost) {
    std::optional<Verdict> answer;
    Request request = flood_request(identifier);
    request.cost = cost;
    engine.check_async(clock_.now(), request, executor_,
                       [&](const Result<Verdict>& verdict) { answer = *verdict; });
    executor_.run();
    return *answer;
  };
  ASSERT_TRUE(ask("partly", 8).admitted());
  engine.run_replay(clock_.now(), executor_);
  flood(engine);
  EXPECT_GT(engine.stats().evicted, 0u);
  const Verdict verdict = ask("partly", 12);
  EXPECT_TRUE(verdict.admitted());
  EXPECT_EQ(verdict.remaining, 0u);
  EXPECT_FALSE(ask("partly", 1).admitted());
}

TEST_F(Flood, OfOneNamespaceDeniesNoTupleOfAnother) {
  const auto engine = Engine::make(clock_, Options{.capacity = kCapacity, .seed = 1});
  flood(*engine);
  for (int i = 0; i < 20 * kCapacity; ++i) {
    (void)engine->check(clock_.now(), flood_request("more-" + std::to_string(i), 5));
  }
  for (int i = 0; i < 50; ++i) {
    const std::string name = "tenant-" + std::to_string(i);
    Request request = flood_request("new", 5);
    request.ns = name;
    int admitted = 0;
    for (int round = 0; round < 10; ++round) {
      admitted += engine->check(clock_.now(), request)->admitted();
    }
    EXPECT_EQ(admitted, 5) << name;
  }
}

TEST_F(Flood, OfManyDurationsEndsWithTheirWindows) {
  const auto engine = Engine::make(clock_, Options{.capacity = kCapacity, .seed = 1});
  const auto request_of = [](std::string_view identifier, int i) {
    Request request = flood_request(identifier);
    request.duration = Millis(60'000 + 1000 * (i % 9));
    return request;
  };
  for (int i = 0; i < 10 * kCapacity; ++i) {
    (void)engine->check(clock_.now(), request_of("flood-" + std::to_string(i), i));
  }
  ASSERT_GT(engine->stats().sketched, 0u);
  clock_.advance(Millis(4 * 131'072));
  engine->run_sweep(clock_.now(), 10 * kCapacity);
  const uint64_t sketched = engine->stats().sketched;
  for (int i = 0; i < 1000; ++i) {
    const auto verdict = engine->check(clock_.now(), request_of("new-" + std::to_string(i), i));
    ASSERT_EQ(verdict->basis, Basis::kLocal);
  }
  EXPECT_EQ(engine->stats().sketched, sketched);
}

// The tuple was replayed and evicted, and then the origin is lost.
TEST_F(Flood, NeverLetsAProcessAcceptMoreThanTheLimitWhileTheOriginIsLost) {
  for (const bool space_again : {true, false}) {
    const auto origin = std::make_shared<doubles::ScriptedOrigin>();
    const auto engine = Engine::make(
        clock_, {.origin = origin, .replay_within = Millis(0), .capacity = 1, .seed = 1});
    const auto flood = [&](const std::string& prefix) {
      for (int i = 0; i < 400; ++i) {
        (void)engine->check(clock_.now(), flood_request(prefix + std::to_string(i)));
      }
    };
    Request request = flood_request("alice", 100);
    request.cost = 90;
    ASSERT_TRUE(engine->check(clock_.now(), request)->admitted());
    engine->run_replay(clock_.now(), executor_, Flush::kAll);
    origin->ack_replays();
    for (int round = 0; round < 20; ++round) {
      flood("flood-" + std::to_string(round) + "-");
      engine->run_replay(clock_.now(), executor_, Flush::kAll);
      origin->ack_replays();
    }
    ASSERT_GT(engine->stats().evicted, 0u);
    origin->reachability = Reach::kNone;
    if (!space_again) flood("unacked-");
    int admitted = 90;
    request.cost = 1;
    for (int i = 0; i < 200; ++i) admitted += engine->check(clock_.now(), request)->admitted();
    EXPECT_LE(admitted, 100) << space_again;
  }
}

}  // namespace
}  // namespace weir::decide
