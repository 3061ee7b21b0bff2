// A request whose duration was changed takes over what was counted by the past one: every pair of
// algorithms, to a longer and to a shorter duration.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "decide/all_algorithms_test.h"
#include "decide/engine.h"
#include "decide/lossy_link_test.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/manual_clock.h"

namespace weir::decide {
namespace {

constexpr Millis kShort{16'000};
constexpr Millis kLong{160'000};
constexpr Count kTakenLimit = 16;

using Change = std::tuple<Algorithm, Algorithm, bool>;

std::string name_of_change(const ::testing::TestParamInfo<Change>& change) {
  return std::string(to_string(std::get<0>(change.param))) + "_to_" +
         std::string(to_string(std::get<1>(change.param))) +
         (std::get<2>(change.param) ? "_longer" : "_shorter");
}

bool to_longer(const Change& change) {
  return std::get<2>(change);
}
bool in_one_class(const Change& change) {
  return memory::class_of(std::get<0>(change)) == memory::class_of(std::get<1>(change));
}
bool from_window(const Change& change) {
  return memory::class_of(std::get<0>(change)) == memory::CellClass::kWindow;
}

// Every pair of algorithms, to a longer and to a shorter duration, for which `applies` is true.
template <typename Applies>
std::vector<Change> changes_where(const Applies& applies) {
  std::vector<Change> changes;
  for (const Algorithm from : kAllAlgorithms) {
    for (const Algorithm to : kAllAlgorithms) {
      for (const bool longer : {false, true}) {
        if (applies(Change(from, to, longer))) changes.emplace_back(from, to, longer);
      }
    }
  }
  return changes;
}
std::vector<Change> every_change() {
  return changes_where([](const Change&) { return true; });
}

// The longest wait after a full use.
Millis longest_wait_of(Algorithm algorithm, Millis duration) {
  switch (algorithm) {
    case Algorithm::kSlidingWindow: return 2 * duration;
    case Algorithm::kSlidingWindowStrict: return duration + duration / 16;
    case Algorithm::kGcra:
    case Algorithm::kTokenBucket: return duration / static_cast<int64_t>(kTakenLimit) + Millis(1);
    case Algorithm::kFixedWindow:
    case Algorithm::kSlidingLog: break;
  }
  return duration;
}

class TakeoverBase : public ::testing::TestWithParam<Change> {
 protected:
  // In the first sixteenth of a long window, whose windows are those of the short one, too.
  TakeoverBase() { clock_.advance(Millis(3000)); }

  [[nodiscard]] static Millis first() { return std::get<2>(GetParam()) ? kShort : kLong; }
  [[nodiscard]] static Millis second() { return std::get<2>(GetParam()) ? kLong : kShort; }
  // With the first algorithm and duration, then with the second.
  [[nodiscard]] Request before(Count cost) const {
    return request(std::get<0>(GetParam()), first(), cost, was_back_ ? &past_ : nullptr);
  }
  [[nodiscard]] Request after(Count cost) const {
    return request(std::get<1>(GetParam()), second(), cost, &past_);
  }
  void change() { note_change(first()); }
  void change_back() {
    note_change(second());
    was_back_ = true;
  }

  doubles::ManualClock clock_;

 private:
  [[nodiscard]] static Request request(Algorithm algorithm, Millis duration, Count cost,
                                       const PastDurations* past) {
    return {.ns = "api",
            .identifier = "alice",
            .limit = kTakenLimit,
            .duration = duration,
            .cost = cost,
            .algorithm = algorithm,
            .past = past};
  }
  void note_change(Millis replaced) {
    past_ = {.changed = clock_.now().wall, .count = 1, .durations = {replaced}};
  }
  PastDurations past_;
  bool was_back_ = false;
};

class Takeover : public TakeoverBase {
 protected:
  Verdict ask(const Request& request) { return *engine_->check(clock_.now(), request); }

  std::shared_ptr<Engine> engine_ = Engine::make(clock_, Options{.capacity = 1000, .seed = 1});
};
INSTANTIATE_TEST_SUITE_P(EveryPair, Takeover, ::testing::ValuesIn(every_change()), name_of_change);

// From a long to a short duration these do not hold: while they let time pass, most of what was
// taken over leaves the short window.
class TakeoverToLonger : public Takeover {};
INSTANTIATE_TEST_SUITE_P(EveryPair, TakeoverToLonger, ::testing::ValuesIn(changes_where(to_longer)),
                         name_of_change);

TEST_P(Takeover, LeavesTheOtherHalfOfTheLimit) {
  ASSERT_TRUE(ask(before(kTakenLimit / 2)).admitted());
  change();
  EXPECT_EQ(ask(after(0)).remaining, kTakenLimit / 2);
  EXPECT_FALSE(ask(after(kTakenLimit / 2 + 1)).admitted());
  const Verdict admitted = ask(after(kTakenLimit / 2));
  EXPECT_TRUE(admitted.admitted());
  EXPECT_EQ(admitted.remaining, 0u);
  EXPECT_FALSE(ask(after(1)).admitted());
}

TEST_P(Takeover, DeniesAfterAFullUseAndAdmitsAtTheRetryTime) {
  ASSERT_TRUE(ask(before(kTakenLimit)).admitted());
  change();
  const Verdict denied = ask(after(1));
  ASSERT_EQ(denied.outcome, Outcome::kDenied);
  ASSERT_TRUE(denied.retry_after);
  EXPECT_LE(*denied.retry_after, longest_wait_of(std::get<1>(GetParam()), second()));
  // In one step: what other processes admitted before they knew of the change is taken over again.
  clock_.advance(Millis(2000));
  const Verdict again = ask(after(1));
  if (again.admitted()) return;
  clock_.advance(*again.retry_after - Millis(1));
  EXPECT_FALSE(ask(after(1)).admitted());
  clock_.advance(Millis(1));
  EXPECT_TRUE(ask(after(1)).admitted());
}

TEST_P(Takeover, GiftsNothingWhenChangedBackAndForth) {
  ASSERT_TRUE(ask(before(4)).admitted());
  change();
  ASSERT_TRUE(ask(after(4)).admitted());
  clock_.advance(Millis(1));
  change_back();
  EXPECT_LE(ask(before(0)).remaining, kTakenLimit - 8);
  ASSERT_TRUE(ask(before(4)).admitted());
  clock_.advance(Millis(1));
  change();
  EXPECT_LE(ask(after(0)).remaining, kTakenLimit - 12);
  EXPECT_TRUE(ask(after(4)).admitted());
  EXPECT_FALSE(ask(after(1)).admitted());
  clock_.advance(Millis(1));
  change_back();
  EXPECT_FALSE(ask(before(1)).admitted());
}

TEST_P(Takeover, PeeksAsTheFirstRequestIsDecided) {
  ASSERT_TRUE(ask(before(5)).admitted());
  clock_.advance(Millis(500));
  change();
  const uint64_t tuples = engine_->stats().tuples;
  const Verdict peek = ask(after(0));
  EXPECT_EQ(engine_->stats().tuples, tuples);
  const Verdict denied = ask(after(kTakenLimit));
  EXPECT_EQ(engine_->stats().tuples, tuples + 1);
  ASSERT_EQ(denied.outcome, Outcome::kDenied);
  EXPECT_EQ(peek.remaining, denied.remaining);
  EXPECT_EQ(peek.reset, denied.reset);
}

TEST_P(Takeover, PeeksWithoutAChange) {
  ASSERT_TRUE(ask(before(4)).admitted());
  change();
  ASSERT_TRUE(ask(after(1)).admitted());
  clock_.advance(Millis(1));
  change_back();
  const Verdict peek = ask(before(0));
  EXPECT_EQ(peek.remaining, ask(before(0)).remaining);
  Request plain = before(0);
  plain.past = nullptr;
  EXPECT_GT(ask(plain).remaining, peek.remaining);
}

TEST_P(TakeoverToLonger, HappensOnceForEachChange) {
  ASSERT_TRUE(ask(before(kTakenLimit)).admitted());
  change();
  ASSERT_FALSE(ask(after(1)).admitted());
  Request other = before(1);
  other.past = nullptr;
  clock_.advance(Millis(500));
  // Somebody goes on with the first duration. That is not taken over: it is another limit.
  const Count left = ask(after(0)).remaining;
  (void)ask(other);
  EXPECT_EQ(ask(after(0)).remaining, left);
}

TEST_P(Takeover, TakesAtMostTheCapacityOfTheRequest) {
  Request much = before(100);
  much.limit = 100;
  ASSERT_TRUE(ask(much).admitted());
  change();
  ASSERT_EQ(ask(after(1)).outcome, Outcome::kDenied);
  clock_.advance(Millis(2000));
  if (ask(after(1)).admitted()) return;
  clock_.advance(longest_wait_of(std::get<1>(GetParam()), second()));
  EXPECT_TRUE(ask(after(1)).admitted());
}

// An override that was too small at first, and then corrected.
TEST_P(TakeoverToLonger, TakesTheRestForALargerLimit) {
  Request much = before(100);
  much.limit = 100;
  ASSERT_TRUE(ask(much).admitted());
  change();
  clock_.advance(Millis(3000));
  Request small = after(1);
  small.limit = 5;
  ASSERT_FALSE(ask(small).admitted());
  Request corrected = after(50);
  corrected.limit = 100;
  EXPECT_FALSE(ask(corrected).admitted());
}

// The mark outlives the tuple.
TEST_P(Takeover, IsNotRepeatedAfterTheNewTupleHasExpired) {
  ASSERT_TRUE(ask(before(kTakenLimit)).admitted());
  change();
  clock_.advance(Millis(2000));
  (void)ask(after(1));
  clock_.advance(2 * second());
  (void)engine_->run_sweep(clock_.now(), 4096);
  EXPECT_TRUE(ask(after(kTakenLimit)).admitted());
}

TEST_P(Takeover, IsForgottenByAReset) {
  ASSERT_TRUE(ask(before(kTakenLimit)).admitted());
  change();
  clock_.advance(Millis(100));
  EXPECT_TRUE(engine_->reset(clock_.now(), after(1)).value());
  EXPECT_TRUE(ask(after(kTakenLimit)).admitted());
}

TEST_P(Takeover, TakesNothingThatHasExpired) {
  ASSERT_TRUE(ask(before(kTakenLimit)).admitted());
  change();
  clock_.advance(2 * kLong);
  EXPECT_EQ(ask(after(1)).remaining, kTakenLimit - 1);
}

TEST_P(Takeover, TakesNothingOverLongAfterTheChange) {
  ASSERT_TRUE(ask(before(kTakenLimit)).admitted());
  change();
  clock_.advance(2 * second() + std::chrono::seconds(12));
  EXPECT_EQ(ask(after(1)).remaining, kTakenLimit - 1);
}

TEST_P(Takeover, DeniesABatchAfterAFullUse) {
  ASSERT_TRUE(ask(before(kTakenLimit)).admitted());
  change();
  Request other = after(1);
  other.identifier = "bob";
  const Request both[] = {other, after(1)};
  const BatchVerdict verdict = *engine_->check_all(clock_.now(), both);
  EXPECT_EQ(verdict.outcome, Outcome::kDenied);
  EXPECT_EQ(verdict.items[0].remaining, kTakenLimit);
  EXPECT_EQ(verdict.items[1].remaining, 0u);
}

TEST_P(Takeover, IsTheSameForManyRequestsAtOnce) {
  ASSERT_TRUE(ask(before(kTakenLimit / 2)).admitted());
  change();
  const std::vector<Request> requests(kTakenLimit, after(1));
  std::vector<Result<Verdict>> verdicts(kTakenLimit);
  engine_->check_each(clock_.now(), requests, verdicts);
  Count admitted = 0;
  for (const auto& verdict : verdicts) admitted += verdict->admitted() ? 1 : 0;
  EXPECT_EQ(admitted, kTakenLimit / 2);
}

// Three engines that share an origin.
class SharedTakeover : public TakeoverBase {
 protected:
  static constexpr size_t kNodes = 3;
  struct Node {
    explicit Node(const doubles::ManualClock& clock) : executor(clock) {}
    doubles::ManualExecutor executor;
    std::shared_ptr<LossyLink> link;
    std::shared_ptr<Engine> engine;
  };

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
  Verdict ask(size_t index, const Request& request) {
    Node& node = *nodes_[index];
    std::optional<Verdict> received;
    node.engine->check_async(clock_.now(), request, node.executor,
                             [&](Result<Verdict> verdict) { received = *verdict; });
    node.executor.run();
    for (int i = 0; i < 10 && !received; ++i) {  // the origin has just refused a request
      clock_.advance(Millis(20));
      node.executor.run();
    }
    return std::move(received.value());
  }
  // Each node asks until it is denied.
  Count admitted_by_all(const Request& request) {
    Count admitted = 0;
    for (size_t node = 0; node < kNodes; ++node) {
      while (ask(node, request).admitted()) ++admitted;
    }
    return admitted;
  }

  std::shared_ptr<origins::InProcessOrigin> origin_ =
      std::make_shared<origins::InProcessOrigin>(clock_);
  std::vector<std::unique_ptr<Node>> nodes_;
};
INSTANTIATE_TEST_SUITE_P(EveryPair, SharedTakeover, ::testing::ValuesIn(every_change()),
                         name_of_change);

// A node looks at the origin for the past duration of the class of its request, and for windows.
// Other classes it takes over only if it has counted the tuple itself.
class SharedTakeoverFromOthers : public SharedTakeover {};
INSTANTIATE_TEST_SUITE_P(EveryPair, SharedTakeoverFromOthers,
                         ::testing::ValuesIn(changes_where([](const Change& change) {
                           return from_window(change) || in_one_class(change);
                         })),
                         name_of_change);

// In a shorter duration most of what others admitted has left the window before a node looks again.
class SharedTakeoverToLonger : public SharedTakeover {};
INSTANTIATE_TEST_SUITE_P(EveryPair, SharedTakeoverToLonger,
                         ::testing::ValuesIn(changes_where(to_longer)), name_of_change);

TEST_P(SharedTakeover, LeavesTheOtherHalfOfTheLimitToAllNodesTogether) {
  for (const Consistency consistency : {Consistency::kConverge, Consistency::kExact}) {
    nodes_.clear();
    origin_->clear();
    start(consistency);
    ASSERT_TRUE(ask(0, before(3)).admitted());
    ASSERT_TRUE(ask(1, before(3)).admitted());
    ASSERT_TRUE(ask(2, before(2)).admitted());
    change();
    EXPECT_EQ(ask(0, after(0)).remaining, kTakenLimit / 2);
    EXPECT_EQ(admitted_by_all(after(1)), kTakenLimit / 2);
    clock_.advance(4 * kLong);
  }
}

TEST_P(SharedTakeoverFromOthers, SeesWhatOnlyAnotherNodeHasCounted) {
  start(Consistency::kExact);
  ASSERT_TRUE(ask(0, before(10)).admitted());
  change();
  EXPECT_EQ(ask(1, after(0)).remaining, kTakenLimit - 10);
  EXPECT_EQ(admitted_by_all(after(1)), kTakenLimit - 10);
}

// Such a verdict was said to be complete: 5 more were admitted of a limit that was used up.
TEST_P(SharedTakeover, IsDegradedWithoutTheCountsOfThePast) {
  start(Consistency::kExact);
  ASSERT_TRUE(ask(0, before(kTakenLimit)).admitted());
  change();
  for (const Count cost : {Count{0}, Count{1}}) {
    nodes_[1]->link->lost_answers = 1;
    EXPECT_EQ(ask(1, after(cost)).basis, Basis::kDegraded) << cost;
    EXPECT_EQ(nodes_[1]->link->lost_answers, 0);
  }
}

TEST_P(SharedTakeover, GiftsNothingWhenChangedBackAndForth) {
  start(Consistency::kExact);
  ASSERT_TRUE(ask(0, before(2)).admitted());
  ASSERT_TRUE(ask(1, before(2)).admitted());
  ASSERT_TRUE(ask(2, before(1)).admitted());
  change();
  for (size_t node = 0; node < kNodes; ++node) ASSERT_TRUE(ask(node, after(1)).admitted());
  clock_.advance(Millis(1));
  change_back();
  for (size_t node = 0; node < kNodes; ++node) {
    EXPECT_LE(ask(node, before(0)).remaining, kTakenLimit - 8) << node;
  }
  for (size_t node = 0; node < kNodes; ++node) ASSERT_TRUE(ask(node, before(1)).admitted());
  clock_.advance(Millis(1));
  change();
  EXPECT_LE(admitted_by_all(after(1)), kTakenLimit - 11);
}

TEST_P(SharedTakeoverToLonger, FindsWhatANodeAdmitsBeforeItKnowsTheChange) {
  start(Consistency::kExact);
  ASSERT_TRUE(ask(0, before(4)).admitted());
  change();
  ASSERT_TRUE(ask(0, after(1)).admitted());
  ASSERT_TRUE(ask(1, before(6)).admitted());
  clock_.advance(Millis(2000));
  // A backlog has drained 2 units.
  EXPECT_LE(ask(0, after(0)).remaining, kTakenLimit - 8);
}

TEST_P(SharedTakeover, IsDoneAloneWhileNodesAreRelaxed) {
  start(Consistency::kRelaxed);
  ASSERT_TRUE(ask(0, before(8)).admitted());
  change();
  EXPECT_EQ(ask(0, after(1)).remaining, kTakenLimit - 9);
}

TEST_P(SharedTakeover, DeniesABatchAfterAFullUse) {
  start(Consistency::kConverge);
  ASSERT_TRUE(ask(0, before(kTakenLimit)).admitted());
  change();
  Request other = after(1);
  other.identifier = "bob";
  std::optional<BatchVerdict> received;
  Node& node = *nodes_[0];
  node.engine->check_all_async(
      clock_.now(), std::array{other, after(1)}, node.executor,
      [&](Result<BatchVerdict> verdict) { received = std::move(*verdict); });
  node.executor.run();
  for (int i = 0; i < 10 && !received; ++i) {
    clock_.advance(Millis(20));
    node.executor.run();
  }
  ASSERT_TRUE(received);
  EXPECT_EQ(received->outcome, Outcome::kDenied);
  EXPECT_EQ(received->items[1].remaining, 0u);
}

TEST_P(SharedTakeover, IsTheSameForManyRequestsAtOnce) {
  start(Consistency::kExact);
  ASSERT_TRUE(ask(0, before(kTakenLimit / 2)).admitted());
  change();
  const std::vector<Request> requests(kTakenLimit, after(1));
  std::vector<Result<Verdict>> verdicts(kTakenLimit);
  bool done = false;
  Node& node = *nodes_[0];
  ASSERT_FALSE(node.engine->check_each_async(clock_.now(), requests, verdicts, node.executor,
                                             [&] { done = true; }));
  EXPECT_FALSE(done);
  for (int i = 0; i < 50 && !done; ++i) {
    node.executor.run();
    clock_.advance(Millis(20));
  }
  ASSERT_TRUE(done);
  Count admitted = 0;
  for (const auto& verdict : verdicts) admitted += verdict->admitted() ? 1 : 0;
  EXPECT_EQ(admitted, kTakenLimit / 2);
}

TEST(TakeoverOf, WrongPastDurationsIsAnError) {
  doubles::ManualClock clock;
  const auto engine = Engine::make(clock, Options{.capacity = 1000, .seed = 1});
  PastDurations past{.changed = clock.now().wall, .count = 1, .durations = {Millis(99)}};
  const Request request{
      .ns = "api", .identifier = "alice", .limit = 10, .duration = Millis(1000), .past = &past};
  std::array<Result<Verdict>, 1> verdicts;
  for (const auto& [field, wrong] :
       {std::pair<std::string, PastDurations>(
            "past.durations", {.changed = {}, .count = 1, .durations = {Millis(99)}}),
        {"past.count", {.changed = {}, .count = 9, .durations = {}}},
        {"past.changed",
         {.changed = WallTime(Millis(-1)), .count = 1, .durations = {Millis(100)}}}}) {
    past = wrong;
    EXPECT_EQ(engine->check(clock.now(), request).error().field, field);
    engine->check_each(clock.now(), {&request, 1}, verdicts);
    EXPECT_EQ(verdicts[0].error().field, field);
    EXPECT_NE(engine->check_all(clock.now(), {&request, 1}).error().field.find(field),
              std::string::npos);
  }
  EXPECT_EQ(engine->stats().tuples, 0u);
}

TEST(TakeoverOf, SeveralDurationsTakesTheLargest) {
  doubles::ManualClock clock;
  const auto engine = Engine::make(clock, Options{.capacity = 1000, .seed = 1});
  Request request{.ns = "api", .identifier = "alice", .limit = 100};
  for (const auto& [duration, cost] : {std::pair(1000, 10), {60'000, 30}, {3'600'000, 20}}) {
    request.duration = Millis(duration);
    request.cost = static_cast<Count>(cost);
    ASSERT_TRUE(engine->check(clock.now(), request)->admitted());
  }
  const PastDurations past{
      .changed = clock.now().wall,
      .count = 4,
      .durations = {Millis(1000), Millis(60'000), Millis(3'600'000), Millis(5000)}};
  request.past = &past;
  request.duration = Millis(5000);
  request.cost = 1;
  EXPECT_EQ(engine->check(clock.now(), request)->remaining, 69u);
}

TEST(TakeoverOf, CountsAcrossDurationsDoesNothing) {
  doubles::ManualClock clock;
  const auto engine = Engine::make(clock, Options{.capacity = 1000, .seed = 1});
  Request request{.ns = "api",
                  .identifier = "alice",
                  .limit = 10,
                  .duration = Millis(1000),
                  .cost = 10,
                  .algorithm = Algorithm::kGcra};
  ASSERT_TRUE(engine->check(clock.now(), request)->admitted());
  const PastDurations past{.changed = clock.now().wall, .count = 1, .durations = {Millis(1000)}};
  request.past = &past;
  request.duration = Millis(2000);
  request.across_durations = true;
  EXPECT_TRUE(engine->check(clock.now(), request)->admitted());
}

}  // namespace
}  // namespace weir::decide
