// A flood of keys resets no tuple and denies no other tuple.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decide/engine.h"
#include "ledgers/memory_ledger.h"
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

// An origin that may not answer.
class Door final : public doubles::ForwardingOrigin {
 public:
  using ForwardingOrigin::ForwardingOrigin;
  void step(std::vector<CellStep> steps, StepReply reply) override {
    if (!answers) return;
    ForwardingOrigin::step(std::move(steps), [this, reply = std::move(reply)](auto totals) {
      if (!holds) return reply(std::move(totals));
      held.emplace_back(reply, std::move(totals));
    });
  }
  void release() {
    holds = false;
    for (auto& [reply, totals] : std::exchange(held, {})) reply(std::move(totals));
  }
  [[nodiscard]] ExactStore* exact_store() override { return nullptr; }
  [[nodiscard]] Reach reach() const override { return reachability; }
  [[nodiscard]] uint32_t live_nodes() const override { return 3; }
  [[nodiscard]] std::optional<Membership> membership() const override { return members; }

  bool answers = true;
  bool holds = false;  // answers wait until release()
  std::vector<std::pair<StepReply, Result<std::vector<StepTotals>>>> held;
  std::optional<Membership> members;  // none: a process has no allowance
  Reach reachability = Reach::kPrompt;
};

// Three processes whose tables are full of tuples at their limits, with one origin.
class RegionFlood : public ::testing::Test {
 protected:
  static constexpr int kPlaces = 64;
  static constexpr size_t kEngines = 3;
  static constexpr Count kLimit = 100;
  static constexpr std::pair<Algorithm, Consistency> kCases[] = {
      {Algorithm::kFixedWindow, Consistency::kExact},
      {Algorithm::kFixedWindow, Consistency::kConverge},
      {Algorithm::kSlidingWindow, Consistency::kExact},
      {Algorithm::kSlidingWindow, Consistency::kConverge}};

  void start(Algorithm algorithm, Consistency consistency,
             std::shared_ptr<GlobalLedger> ledger = nullptr) {
    algorithm_ = algorithm;
    origin_ = std::make_shared<origins::InProcessOrigin>(clock_);
    engines_.clear();
    doors_.clear();
    for (size_t i = 0; i < kEngines; ++i) {
      doors_.push_back(std::make_shared<Door>(i == 0 ? origin_ : origin_->another_endpoint()));
      engines_.push_back(Engine::make(clock_, {.origin = doors_.back(),
                                               .ledger = ledger,
                                               .region = "east",
                                               .consistency = consistency,
                                               .capacity = kPlaces,
                                               .seed = i + 1}));
    }
  }
  void flood() {
    for (size_t i = 0; i < kEngines; ++i) {
      for (int key = 0; key < 8 * kPlaces; ++key) {
        const std::string name = "flood-" + std::to_string(i) + "-" + std::to_string(key);
        Request fresh = request(name);
        fresh.ns = "flooded";
        fresh.limit = 1;
        (void)check(i, fresh);
      }
      ASSERT_GE(engines_[i]->stats().tuples, static_cast<uint64_t>(kPlaces));
    }
  }
  [[nodiscard]] Request request(std::string_view identifier, Count cost = 1) const {
    return {.ns = "api",
            .identifier = identifier,
            .limit = kLimit,
            .duration = Millis(3'600'000),
            .cost = cost,
            .algorithm = algorithm_};
  }
  Verdict check(size_t engine, const Request& request) {
    std::optional<Verdict> answer;
    engines_[engine]->check_async(clock_.now(), request, executor_,
                                  [&](const Result<Verdict>& verdict) { answer = *verdict; });
    executor_.run();
    while (!answer) {  // the origin has just refused a request, or does not answer
      clock_.advance(Millis(20));
      executor_.run();
    }
    return *answer;
  }
  BatchVerdict check_all(size_t engine, const std::vector<Request>& requests) {
    std::optional<BatchVerdict> answer;
    engines_[engine]->check_all_async(clock_.now(), requests, executor_,
                                      [&](auto verdict) { answer = *verdict; });
    executor_.run();
    while (!answer) {
      clock_.advance(Millis(20));
      executor_.run();
    }
    return *answer;
  }
  // Of so many requests to each process.
  Count admitted(std::string_view identifier, int requests) {
    Count sum = 0;
    for (int i = 0; i < requests; ++i) {
      for (size_t engine = 0; engine < kEngines; ++engine) {
        sum += check(engine, request(identifier)).admitted() ? 1 : 0;
      }
    }
    return sum;
  }
  // Replays of the first process, which has heard of the others for long enough.
  void replay_as_member() {
    constexpr Millis kLong{20'000};
    if (clock_.now().mono < MonoTime(kLong)) clock_.advance(kLong);
    doors_[0]->members = {
        .nodes = kEngines, .since = clock_.now().mono - kLong, .heard_at = clock_.now().mono};
    engines_[0]->run_replay(clock_.now(), executor_, Flush::kAll);
    executor_.run();
  }
  // Until the first process has no tuple of the request any more.
  void evict(const Request& request) {
    const std::string tuple = tuple_of(request);
    const auto is_held = [&] {
      bool held = false;
      engines_[0]->inspect([&](const CellView& cell) { held = held || cell.tuple == tuple; });
      return held;
    };
    for (int i = 0; i < 100'000 && is_held(); ++i) {
      Request fresh = this->request("fresh", kLimit / 2);
      const std::string name = std::to_string(++evictions_);
      fresh.identifier = name;
      (void)engines_[0]->check(clock_.now(), fresh);
      replay_as_member();
    }
    ASSERT_FALSE(is_held());
  }
  [[nodiscard]] std::string tuple_of(const Request& request) const {
    return memory::TupleKey(request, base::KeyedHash{1}).encoded();
  }
  [[nodiscard]] CellId cell_of(const Request& request) const {
    return {tuple_of(request), clock_.now().wall.time_since_epoch() / request.duration};
  }

  doubles::ManualClock clock_;
  doubles::ManualExecutor executor_{clock_};
  Algorithm algorithm_ = Algorithm::kFixedWindow;
  std::shared_ptr<origins::InProcessOrigin> origin_;
  std::vector<std::shared_ptr<Door>> doors_;
  std::vector<std::shared_ptr<Engine>> engines_;
  int evictions_ = 0;
};

// Each flooded process admitted the whole limit again: 300 of 100.
TEST_F(RegionFlood, ReleasesNoClientAtItsLimitWhileTheOriginAnswers) {
  for (const auto& [algorithm, consistency] : kCases) {
    SCOPED_TRACE(std::string(to_string(algorithm)) + " " + std::string(to_string(consistency)));
    start(algorithm, consistency);
    for (Count i = 0; i < kLimit; ++i) ASSERT_TRUE(check(0, request("at-its-limit")).admitted());
    flood();
    EXPECT_EQ(admitted("at-its-limit", 5), 0u);
    for (size_t engine = 1; engine < kEngines; ++engine) {
      const Instant now = clock_.now();
      const Verdict verdict = check(engine, request("at-its-limit"));
      EXPECT_EQ(verdict.basis, Basis::kRefreshed);
      EXPECT_EQ(verdict.remaining, 0u);
      if (algorithm != Algorithm::kFixedWindow) continue;
      EXPECT_EQ(now.wall + verdict.retry_after.value(), verdict.reset);
    }
  }
}

TEST_F(RegionFlood, AdmitsTheLimitOfANewClientOnce) {
  for (const auto& [algorithm, consistency] : kCases) {
    SCOPED_TRACE(std::string(to_string(algorithm)) + " " + std::string(to_string(consistency)));
    start(algorithm, consistency);
    flood();
    EXPECT_EQ(admitted("new", 20), 60u);
    EXPECT_EQ(admitted("new", 20), 40u);
    // The origin has few components, however many requests it admitted.
    const auto components = origin_->components(cell_of(request("new")));
    EXPECT_LE(components.size(), 2 + kEngines);
    Count counted = 0;
    for (const auto& [component, count] : components) counted += count;
    EXPECT_EQ(counted, kLimit);
    // At the end of the windows it has the whole limit again.
    clock_.advance(2 * Millis(3'600'000));
    for (const auto& engine : engines_) engine->run_sweep(clock_.now(), 10 * kPlaces);
    EXPECT_EQ(admitted("new", 40), 100u);
  }
}

TEST_F(RegionFlood, ChargesABatchAsAWholeOrNotAtAll) {
  for (const auto& [algorithm, consistency] : kCases) {
    SCOPED_TRACE(std::string(to_string(algorithm)) + " " + std::string(to_string(consistency)));
    start(algorithm, consistency);
    ASSERT_TRUE(check(0, request("at-its-limit", kLimit)).admitted());
    flood();
    const BatchVerdict denied =
        check_all(1, {request("new", 60), request("at-its-limit"), request("newer", 60)});
    EXPECT_EQ(denied.outcome, Outcome::kDenied);
    EXPECT_FALSE(denied.items[1].admitted());
    // Together they do not fit.
    EXPECT_EQ(check_all(1, {request("new", 60), request("new", 60)}).outcome, Outcome::kDenied);
    const BatchVerdict whole = check_all(1, {request("new", 60), request("newer", 100)});
    EXPECT_EQ(whole.outcome, Outcome::kAdmitted);
    EXPECT_EQ(whole.items[0].basis, Basis::kRefreshed);
    EXPECT_EQ(whole.items[0].remaining, 40u);
    EXPECT_FALSE(check(2, request("new", 41)).admitted());
    EXPECT_TRUE(check(2, request("new", 40)).admitted());
    EXPECT_FALSE(check(2, request("newer")).admitted());
    EXPECT_FALSE(check_all(2, {request("newer")}).admitted());
  }
}

// Regression: an item had no tuple, so the origin was asked what was left. A tuple was created
// before it answered, and the denied batch took the cost of the item back, which nobody had
// charged.
TEST_F(RegionFlood, ADeniedBatchTakesNothingBackThatItDidNotCharge) {
  start(Algorithm::kFixedWindow, Consistency::kExact);
  ASSERT_TRUE(check(0, request("at-its-limit", kLimit)).admitted());
  constexpr Millis kShort{100};
  for (int key = 0; key < 8 * kPlaces; ++key) {
    const std::string name = "flood-" + std::to_string(key);
    Request fresh = request(name);
    fresh.limit = 1;
    fresh.duration = kShort;
    (void)check(1, fresh);
  }
  Engine& engine = *engines_[1];
  // The batch asks after this request.
  doors_[1]->holds = true;
  engine.check_async(clock_.now(), request("new"), executor_, [](const auto&) {});
  std::optional<BatchVerdict> verdict;
  engine.check_all_async(clock_.now(), std::vector{request("new"), request("at-its-limit")},
                         executor_, [&](auto answer) { verdict = *answer; });
  executor_.run();
  clock_.advance(2 * kShort);
  engine.run_sweep(clock_.now(), 10 * kPlaces);
  ASSERT_TRUE(engine.check(clock_.now(), request("new", 2))->admitted());
  doors_[1]->release();
  executor_.run();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->outcome, Outcome::kDenied);
  EXPECT_EQ(verdict->items[0].basis, Basis::kRefreshed);
  Count own = 0;
  engine.inspect([&](const CellView& cell) {
    if (cell.tuple == tuple_of(request("new"))) own += cell.own;
  });
  EXPECT_EQ(own, 2u);
}

TEST_F(RegionFlood, AdmitsNoMoreThanTheLossPolicySaysIfTheOriginDoesNotAnswer) {
  for (const auto& [algorithm, consistency] : kCases) {
    SCOPED_TRACE(std::string(to_string(algorithm)) + " " + std::string(to_string(consistency)));
    start(algorithm, consistency);
    ASSERT_TRUE(check(0, request("at-its-limit", kLimit)).admitted());
    flood();
    // What was admitted without a tuple is not forgotten.
    ASSERT_TRUE(check(1, request("half-used", 50)).admitted());
    doors_[1]->answers = false;
    const Verdict late = check(1, request("at-its-limit"));
    EXPECT_FALSE(late.admitted());
    EXPECT_EQ(late.basis, Basis::kDegraded);
    EXPECT_FALSE(check_all(1, {request("at-its-limit"), request("new")}).admitted());
    doors_[1]->reachability = Reach::kNone;
    for (const auto& [policy, most] :
         {std::pair(OnOriginLoss::kDeny, Count{0}), std::pair(OnOriginLoss::kShare, Count{34}),
          std::pair(OnOriginLoss::kLocal, kLimit)}) {
      const std::string name(to_string(policy));
      Request each = request(name);
      each.on_origin_loss = policy;
      Count sum = 0;
      for (Count i = 0; i < 2 * kLimit; ++i) sum += check(1, each).admitted() ? 1 : 0;
      EXPECT_LE(sum, most) << name;
      EXPECT_GE(sum, most / 2) << name;
    }
    Request known = request("half-used", 51);
    known.on_origin_loss = OnOriginLoss::kLocal;
    EXPECT_FALSE(check(1, known).admitted());
  }
}

// A flood that evicts a tuple gave its client another allowance each time, if answers were late.
TEST_F(RegionFlood, GivesAnEvictedTupleNoOtherAllowanceIfAnswersAreLate) {
  start(Algorithm::kFixedWindow, Consistency::kConverge);
  replay_as_member();
  doors_[0]->answers = false;
  Count sum = 0;
  Count before_eviction = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 10; ++i) {
      sum += check(0, request("alice")).admitted() ? 1 : 0;
      replay_as_member();
    }
    if (round == 0) before_eviction = sum;
    evict(request("alice"));
  }
  EXPECT_GT(before_eviction, 0u);
  EXPECT_EQ(sum, before_eviction);
  // Once the origin answers, its counts are known again, and so is the rest of the limit.
  doors_[0]->answers = true;
  EXPECT_EQ(check(0, request("alice")).remaining, kLimit - sum - 1);
}

// The same between regions: it was used up elsewhere, and what this process knew of that left with
// the tuple.
TEST_F(RegionFlood, AdmitsNothingOfAnEvictedTupleWithoutTheCountsOfOtherRegionsIfAnAnswerIsLate) {
  start(Algorithm::kFixedWindow, Consistency::kConverge,
        std::make_shared<ledgers::MemoryLedger>(clock_));
  replay_as_member();
  ASSERT_TRUE(check(0, request("alice")).admitted());
  replay_as_member();
  evict(request("alice"));
  doors_[0]->answers = false;
  EXPECT_FALSE(check(0, request("alice")).admitted());
  // One that was not evicted has an allowance.
  EXPECT_TRUE(check(0, request("new")).admitted());
  // So has each while no answer comes in time.
  doors_[0]->reachability = Reach::kSlow;
  EXPECT_TRUE(check(0, request("alice")).admitted());
}

// Before a process asks, it reads what other regions have admitted: it keeps no counts of such a
// tuple.
TEST_F(RegionFlood, CountsWhatOtherRegionsHaveAdmitted) {
  for (const auto& [algorithm, consistency] : kCases) {
    SCOPED_TRACE(std::string(to_string(algorithm)) + " " + std::string(to_string(consistency)));
    start(algorithm, consistency, std::make_shared<ledgers::MemoryLedger>(clock_));
    flood();
    const CellId cell = cell_of(request("everywhere"));
    origin_->update_tuples(
        {{.tuple = cell.tuple,
          .counts = {{.region = "west", .sequence = cell.sequence, .count = 60, .limit_seen = 100}},
          .kept_until = clock_.now().wall + Millis(7'200'000),
          .now = clock_.now().wall,
          .sequences = {}}},
        [](const auto&) {});
    EXPECT_EQ(admitted("everywhere", 20), 40u);
    // The bridge is to publish what no process will.
    bool due = false;
    for (const DueTuple& each :
         origin_->snapshot().due.read(WallTime{}, WallTime::max(), 1'000'000)) {
      due = due || each.tuple == cell.tuple;
    }
    EXPECT_TRUE(due);
    // A refused step tells its limit by a component, which is retired.
    EXPECT_LE(origin_->components(cell).size(), 4u);
  }
}

}  // namespace
}  // namespace weir::decide
