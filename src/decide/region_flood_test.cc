// A flood of keys on the processes of a region releases no client at its limit.

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

namespace weir::decide {
namespace {

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
