// The contract of the engine that all six algorithms share.

#include "decide/engine.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "decide/all_algorithms_test.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/manual_clock.h"
#include "tests/doubles/ticking_clock.h"

namespace weir::decide {
namespace {

using doubles::ManualClock;
using doubles::TickingClock;

struct TestEngine {
  ManualClock clock;
  std::shared_ptr<Engine> engine = Engine::make(clock, Options{.capacity = 1000, .seed = 1});

  Verdict ask(const Request& request) { return *engine->check(clock.now(), request); }
};

Request engine_request(Algorithm algorithm, Count limit = 10, Count cost = 1) {
  return {.ns = "api",
          .identifier = "alice",
          .limit = limit,
          .duration = Millis(10'000),
          .cost = cost,
          .algorithm = algorithm};
}

class EveryAlgorithm : public ::testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(Engine, EveryAlgorithm, ::testing::ValuesIn(kAllAlgorithms),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST_P(EveryAlgorithm, AdmitsExactlyTheLimitAtOnce) {
  TestEngine under_test;
  for (int i = 9; i >= 0; --i) {
    const Verdict verdict = under_test.ask(engine_request(GetParam()));
    ASSERT_TRUE(verdict.admitted());
    EXPECT_EQ(verdict.remaining, static_cast<Count>(i));
    EXPECT_FALSE(verdict.retry_after.has_value());
    EXPECT_EQ(verdict.evidence.own, static_cast<Count>(9 - i));
    EXPECT_EQ(verdict.limit, 10u);
    EXPECT_EQ(verdict.basis, Basis::kLocal);
  }
  const Verdict denied = under_test.ask(engine_request(GetParam()));
  EXPECT_EQ(denied.outcome, Outcome::kDenied);
  EXPECT_EQ(denied.remaining, 0u);
  EXPECT_EQ(denied.evidence.own, 10u);
}

TEST_P(EveryAlgorithm, ConsumesNothingWhenItDenies) {
  TestEngine under_test;
  ASSERT_TRUE(under_test.ask(engine_request(GetParam(), 10, 8)).admitted());
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(under_test.ask(engine_request(GetParam(), 10, 3)).admitted());
  }
  EXPECT_TRUE(under_test.ask(engine_request(GetParam(), 10, 2)).admitted());
}

TEST_P(EveryAlgorithm, PeeksWithoutAChange) {
  TestEngine under_test;
  const Verdict unknown = under_test.ask(engine_request(GetParam(), 10, 0));
  EXPECT_TRUE(unknown.admitted());
  EXPECT_EQ(unknown.remaining, 10u);
  EXPECT_EQ(under_test.engine->stats().tuples, 0u);
  ASSERT_TRUE(under_test.ask(engine_request(GetParam(), 10, 10)).admitted());
  for (int i = 0; i < 100; ++i) {
    const Verdict full = under_test.ask(engine_request(GetParam(), 10, 0));
    EXPECT_TRUE(full.admitted());  // the cost equals the remainder
    EXPECT_EQ(full.remaining, 0u);
  }
}

TEST_P(EveryAlgorithm, SaysNeverToWhatCanNeverPass) {
  TestEngine under_test;
  const Verdict verdict = under_test.ask(engine_request(GetParam(), 10, 11));
  EXPECT_EQ(verdict.outcome, Outcome::kNever);
  EXPECT_FALSE(verdict.retry_after.has_value());
  EXPECT_EQ(verdict.remaining, 10u);
  EXPECT_TRUE(under_test.ask(engine_request(GetParam(), 10, 10)).admitted());
}

TEST_P(EveryAlgorithm, AppliesALowerAndAHigherLimitToTheSameCount) {
  TestEngine under_test;
  ASSERT_TRUE(under_test.ask(engine_request(GetParam(), 10, 8)).admitted());
  EXPECT_FALSE(under_test.ask(engine_request(GetParam(), 8, 1)).admitted());
  EXPECT_FALSE(under_test.ask(engine_request(GetParam(), 5, 1)).admitted());
  EXPECT_EQ(under_test.ask(engine_request(GetParam(), 20, 0)).remaining, 12u);
  EXPECT_TRUE(under_test.ask(engine_request(GetParam(), 20, 12)).admitted());
  EXPECT_FALSE(under_test.ask(engine_request(GetParam(), 20, 1)).admitted());
}

TEST_P(EveryAlgorithm, HandlesTheExtremesOfItsParameters) {
  TestEngine under_test;
  Request request =
      engine_request(GetParam(), GetParam() == Algorithm::kSlidingLog ? kMaxLogLimit : kMaxLimit);
  request.cost = request.limit;
  for (const Millis duration : {kMinDuration, Millis(86'400'000), kMaxDuration}) {
    request.duration = duration;
    EXPECT_TRUE(under_test.ask(request).admitted());
    const Verdict denied = under_test.ask(request);
    EXPECT_EQ(denied.outcome, Outcome::kDenied);
    ASSERT_TRUE(denied.retry_after.has_value());
    EXPECT_GT(*denied.retry_after, Millis(0));
    EXPECT_LE(*denied.retry_after, 2 * duration);
  }
}

TEST_P(EveryAlgorithm, GivesARetryTimeThatHoldsWhenTheClockStepsBack) {
  // Within a window, time does not run back for a tuple. Beyond, some algorithms reset it, and the
  // retry time no longer applies.
  for (const Millis step : {Millis(0), Millis(-11), Millis(-2'000), Millis(-9'999), Millis(-11'000),
                            Millis(-3'600'000)}) {
    for (const Count cost : {1, 3, 10}) {
      TestEngine under_test;
      under_test.clock.advance(Millis(12'345));
      ASSERT_TRUE(under_test.ask(engine_request(GetParam(), 10, 10)).admitted());
      under_test.clock.step_wall(step);
      const Verdict denied = under_test.ask(engine_request(GetParam(), 10, cost));
      if (step < Millis(-10'000) && denied.admitted()) continue;
      ASSERT_EQ(denied.outcome, Outcome::kDenied) << step.count();
      ASSERT_TRUE(denied.retry_after.has_value());
      // At most two windows after the clock has caught up.
      EXPECT_LE(*denied.retry_after, Millis(20'000) - step);
      under_test.clock.advance(*denied.retry_after - Millis(1));
      EXPECT_FALSE(under_test.ask(engine_request(GetParam(), 10, cost)).admitted())
          << step.count() << " ms, cost " << cost;
      under_test.clock.advance(Millis(1));
      EXPECT_TRUE(under_test.ask(engine_request(GetParam(), 10, cost)).admitted())
          << step.count() << " ms, cost " << cost;
    }
  }
}

TEST_P(EveryAlgorithm, DoesNotDenyUntilTheClockCatchesUp) {
  TestEngine under_test;
  for (const Millis back : {Millis(-120'000), Millis(-3'600'000)}) {
    // In use for ten minutes, then exhausted, then the clock is set back.
    for (int i = 0; i < 600; ++i) {
      ASSERT_TRUE(under_test.ask(engine_request(GetParam(), 100)).admitted());
      under_test.clock.advance(Millis(1000));
    }
    while (under_test.ask(engine_request(GetParam(), 100)).admitted()) {
    }
    under_test.clock.step_wall(back);
    const Verdict verdict = under_test.ask(engine_request(GetParam(), 100));
    if (!verdict.admitted()) {
      EXPECT_LE(*verdict.retry_after, Millis(10'000));
    }
    under_test.clock.advance(Millis(10'000));
    EXPECT_TRUE(under_test.ask(engine_request(GetParam(), 100)).admitted());
  }
}

// Random requests at random times; a denied request passes at its retry time and not one tick
// earlier.
void check_retry_and_remaining(Algorithm algorithm) {
  TestEngine under_test;
  const auto limit = *rc::gen::inRange<Count>(1, 30);
  for (int i = 0; i < 60; ++i) {
    under_test.clock.advance(Millis(*rc::gen::inRange<int64_t>(0, 1500)));
    const auto cost = *rc::gen::inRange<Count>(1, limit + 1);
    const Request request = engine_request(algorithm, limit, cost);
    const Count free = under_test.ask(engine_request(algorithm, limit, 0)).remaining;
    const Verdict verdict = under_test.ask(request);
    RC_ASSERT(verdict.admitted() == (cost <= free));
    if (verdict.admitted()) {
      RC_ASSERT(verdict.remaining == free - cost);
      continue;
    }
    RC_ASSERT(verdict.remaining == free);
    under_test.clock.advance(*verdict.retry_after - Millis(1));
    RC_ASSERT(!under_test.ask(request).admitted());
    under_test.clock.advance(Millis(1));
    RC_ASSERT(under_test.ask(request).admitted());
  }
}

RC_GTEST_PROP(Engine, KeepsItsContractForSlidingWindow, ()) {
  check_retry_and_remaining(Algorithm::kSlidingWindow);
}
RC_GTEST_PROP(Engine, KeepsItsContractForSlidingWindowStrict, ()) {
  check_retry_and_remaining(Algorithm::kSlidingWindowStrict);
}
RC_GTEST_PROP(Engine, KeepsItsContractForFixedWindow, ()) {
  check_retry_and_remaining(Algorithm::kFixedWindow);
}
RC_GTEST_PROP(Engine, KeepsItsContractForSlidingLog, ()) {
  check_retry_and_remaining(Algorithm::kSlidingLog);
}
RC_GTEST_PROP(Engine, KeepsItsContractForGcra, ()) {
  check_retry_and_remaining(Algorithm::kGcra);
}
RC_GTEST_PROP(Engine, KeepsItsContractForTokenBucket, ()) {
  check_retry_and_remaining(Algorithm::kTokenBucket);
}

// Never more than the limit in any trailing window, through the production cells.
void check_trailing_windows(Algorithm algorithm) {
  TestEngine under_test;
  const auto limit = *rc::gen::inRange<Count>(1, 20);
  std::vector<std::pair<WallTime, Count>> accepted;
  for (int i = 0; i < 150; ++i) {
    under_test.clock.advance(Millis(*rc::gen::inRange<int64_t>(0, 2000)));
    const auto cost = *rc::gen::inRange<Count>(1, 4);
    if (!under_test.ask(engine_request(algorithm, limit, cost)).admitted()) continue;
    const WallTime now = under_test.clock.now().wall;
    accepted.emplace_back(now, cost);
    Count in_view = 0;
    for (const auto& [when, amount] : accepted) {
      if (when > now - Millis(10'000)) in_view += amount;
    }
    RC_ASSERT(in_view <= limit);
  }
}

RC_GTEST_PROP(Engine, HoldsEveryTrailingWindowWithTheStrictRing, ()) {
  check_trailing_windows(Algorithm::kSlidingWindowStrict);
}
RC_GTEST_PROP(Engine, HoldsEveryTrailingWindowWithTheLog, ()) {
  check_trailing_windows(Algorithm::kSlidingLog);
}

TEST_P(EveryAlgorithm, AdmitsExactlyTheLimitFromManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kRequests = 5000;
  constexpr Count kLimit = 7000;
  TestEngine under_test;
  std::atomic<Count> admitted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRequests; ++i) {
        if (under_test.ask(engine_request(GetParam(), kLimit)).admitted()) admitted.fetch_add(1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(admitted.load(), kLimit);
  const LimiterStats stats = under_test.engine->stats();
  EXPECT_EQ(stats.admitted, kLimit);
  EXPECT_EQ(stats.denied, kThreads * kRequests - kLimit);
}

TEST_P(EveryAlgorithm, HoldsTheLimitWhileThreadsAreOnBothSidesOfABoundary) {
  // The threads share one clock that moves with every reading, so that at each boundary
  // some still hold a time from before it, or even from windows ago.
  constexpr int kThreads = 4;
  constexpr Count kLimit = 50;
  constexpr int64_t kTicks = 42'000;  // a little more than four windows
  const TickingClock clock;
  const auto engine = Engine::make(clock, Options{.capacity = 1000, .seed = 1});
  std::atomic<Count> admitted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (Instant now = clock.now(); now.wall < TickingClock::kStart.wall + Millis(kTicks);
           now = clock.now()) {
        if (engine->check(now, engine_request(GetParam(), kLimit))->admitted()) ++admitted;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  // Five windows begin; a bucket starts full and refills for 42 s; the ring's oldest part
  // leaves after seventeen sixteenths of a window, so that it fills four times.
  const Count most = GetParam() == Algorithm::kGcra || GetParam() == Algorithm::kTokenBucket
                         ? kLimit + kTicks * kLimit / 10'000
                     : GetParam() == Algorithm::kSlidingWindowStrict ? 4 * kLimit
                                                                     : 5 * kLimit;
  EXPECT_LE(admitted.load(), most);
  EXPECT_GE(admitted.load(), 4 * kLimit * 16 / 17);
  EXPECT_EQ(engine->stats().rebuilt, 0u);
}

TEST_P(EveryAlgorithm, DoesNotResetATupleForALateRequest) {
  TestEngine under_test;
  const Instant early = under_test.clock.now();
  under_test.clock.advance(Millis(100'000));
  ASSERT_TRUE(under_test.ask(engine_request(GetParam(), 10, 10)).admitted());
  // Its thread slept for ten windows. It is decided at the present.
  EXPECT_FALSE(under_test.engine->check(early, engine_request(GetParam()))->admitted());
  const std::vector<Request> batch(2, engine_request(GetParam()));
  EXPECT_FALSE(under_test.engine->check_all(early, batch)->admitted());
  EXPECT_EQ(under_test.engine->check(early, engine_request(GetParam(), 10, 0))->remaining, 0u);
  EXPECT_FALSE(under_test.ask(engine_request(GetParam())).admitted());
}

TEST(Engine, DecidesAGroupAsOneByOne) {
  TestEngine one;
  TestEngine many;
  std::vector<Request> requests;
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("user-" + std::to_string(i % 7));
  for (int i = 0; i < 100; ++i) {
    Request request = engine_request(kAllAlgorithms[i % 6], 5, i % 3);
    request.identifier = names[i];
    if (i % 17 == 0) request.limit = 0;
    requests.push_back(request);
  }
  std::vector<Result<Verdict>> verdicts(requests.size());
  many.engine->check_each(many.clock.now(), requests, verdicts);
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto expected = one.engine->check(one.clock.now(), requests[i]);
    ASSERT_EQ(verdicts[i].ok(), expected.ok());
    if (!expected) continue;
    EXPECT_EQ(verdicts[i]->outcome, expected->outcome);
    EXPECT_EQ(verdicts[i]->remaining, expected->remaining);
    EXPECT_EQ(verdicts[i]->retry_after, expected->retry_after);
  }
}

// Every client of the origin can read the name. Regression: it revealed the seed of the hash.
TEST(Engine, DoesNotRevealItsHashSeedByItsIncarnation) {
  const ManualClock clock;
  const auto name = [&](std::optional<uint64_t> seed) {
    return Engine::make(clock, Options{.capacity = 64, .seed = seed})->incarnation();
  };
  std::set<uint64_t> names;
  for (uint64_t seed = 1; seed <= 64; ++seed) {
    const uint64_t given = name(seed);
    EXPECT_EQ(given, name(seed));
    names.insert(given);
    // The name was the seed times an odd number, except for the last bit, which is invertible.
    constexpr uint64_t kFactor = 0x2545f4914f6cdd1dULL;
    uint64_t inverse = kFactor;
    for (int i = 0; i < 6; ++i) inverse *= 2 - kFactor * inverse;
    ASSERT_EQ(kFactor * inverse, 1u);
    EXPECT_NE(given * inverse, seed);
    EXPECT_NE((given ^ 1) * inverse, seed);
  }
  EXPECT_EQ(names.size(), 64u);
  EXPECT_NE(name(std::nullopt), name(std::nullopt));
}

// While a thread sleeps between reading the clock and reading its tuple, others use the tuple ten
// windows later. This repeats for `jumps` readings of the clock.
class NightmareClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const override {
    const Instant seen = clock_.now();
    if (jumps == 0) return seen;
    --jumps;
    // One reading shows that the tuple is not ahead of the clock; one is for the retry.
    if (jumps % 2 == 0) {
      clock_.advance(Millis(100'000));
      others(clock_.now());
    }
    return seen;
  }
  mutable int jumps = 0;
  std::function<void(Instant)> others;

 private:
  mutable ManualClock clock_;
};

TEST_P(EveryAlgorithm, DeniesForOneTickARequestThatIsLateAgainAndAgain) {
  constexpr int kMost = 1000;
  NightmareClock clock;
  const auto engine = Engine::make(clock, Options{.capacity = 1000, .seed = 1});
  const auto late = [&](const auto& ask) {
    clock.others = [&](Instant then) {
      const int left = std::exchange(clock.jumps, 0);
      ASSERT_TRUE(engine->check(then, engine_request(GetParam()))->admitted());
      clock.jumps = left;
    };
    const Instant asked = clock.now();
    clock.jumps = kMost + 1;
    (void)clock.now();
    const Verdict verdict = ask(asked);
    EXPECT_GT(clock.jumps, kMost - 20);
    EXPECT_EQ(verdict.outcome, Outcome::kDenied);
    EXPECT_EQ(verdict.retry_after, Millis(1));
    clock.jumps = 0;
  };
  late([&](Instant asked) { return *engine->check(asked, engine_request(GetParam())); });
  late([&](Instant asked) { return *engine->check(asked, engine_request(GetParam(), 10, 0)); });
  late([&](Instant asked) {
    const std::vector<Request> batch(2, engine_request(GetParam()));
    const auto verdict = engine->check_all(asked, batch);
    EXPECT_FALSE(verdict->admitted());
    return verdict->items[1];
  });
}

// Regression: the engine wrote beyond a span that was too short.
TEST(Engine, DecidesNothingAndReportsBothSizesIfTheyDiffer) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{20}, size_t{32}, size_t{34}, size_t{40}}) {
    for (const bool waits : {false, true}) {
      TestEngine under_test;
      doubles::ManualExecutor home(under_test.clock);
      if (waits) {
        under_test.engine =
            Engine::make(under_test.clock,
                         {.origin = std::make_shared<origins::InProcessOrigin>(under_test.clock)});
      }
      const std::vector<Request> requests(33, engine_request(Algorithm::kFixedWindow, 100));
      std::vector<Result<Verdict>> verdicts(48);
      for (auto& verdict : verdicts) verdict = Verdict{.remaining = 4711};
      const auto results = std::span(verdicts).first(size);
      bool done = false;
      EXPECT_TRUE(under_test.engine->check_each_async(under_test.clock.now(), requests, results,
                                                      home, [&] { done = true; }));
      under_test.engine->check_each(under_test.clock.now(), requests, results);
      home.run();
      EXPECT_FALSE(done);
      for (size_t i = 0; i < verdicts.size(); ++i) {
        ASSERT_EQ(verdicts[i].ok(), i >= size) << size;
        if (i >= size) {
          EXPECT_EQ(verdicts[i]->remaining, 4711u) << size;
          continue;
        }
        EXPECT_EQ(verdicts[i].error().field, "verdicts");
        EXPECT_EQ(verdicts[i].error().detail,
                  "verdicts has " + std::to_string(size) + " elements, but there are 33 requests");
        EXPECT_FALSE(verdicts[i].error().fix.empty());
      }
      EXPECT_EQ(under_test.engine->stats().tuples, 0u);
    }
  }
}

TEST(Engine, KeepsOneCountAcrossDurationsOnRequest) {
  TestEngine under_test;
  const auto request_at = [](Count limit, Millis duration, Count cost) {
    Request request = engine_request(Algorithm::kGcra, limit, cost);
    request.duration = duration;
    request.burst = 10;
    request.across_durations = true;
    return request;
  };
  ASSERT_TRUE(under_test.ask(request_at(10, Millis(10'000), 4)).admitted());
  // At every rate, four seconds are left to drain; the number of units depends on the rate.
  const std::tuple<int64_t, Millis, Count> rates[] = {{10, Millis(10'000), 6},
                                                      {10, Millis(60'000), 9},
                                                      {2, Millis(1000), 2},
                                                      {100, Millis(3'600'000), 9},
                                                      {1, kMaxAnyDuration, 9}};
  for (const auto& [limit, duration, remaining] : rates) {
    const Verdict verdict = under_test.ask(request_at(limit, duration, 0));
    EXPECT_EQ(verdict.remaining, remaining);
    EXPECT_EQ(verdict.reset - under_test.clock.now().wall, Millis(4000));
  }
  // A charge at another rate adds that rate's time.
  ASSERT_TRUE(under_test.ask(request_at(1, Millis(60'000), 6)).admitted());
  const Verdict denied = under_test.ask(request_at(10, Millis(10'000), 1));
  EXPECT_FALSE(denied.admitted());
  EXPECT_EQ(denied.reset - under_test.clock.now().wall, Millis(364'000));
  EXPECT_EQ(denied.retry_after, Millis(355'000));
  EXPECT_EQ(under_test.engine->stats().tuples, 1u);
  // Without across_durations, each duration has its own count.
  Request slow = request_at(10, Millis(10'000), 0);
  slow.across_durations = false;
  EXPECT_EQ(under_test.ask(slow).remaining, 10u);
}

// --- reset ---

TEST_P(EveryAlgorithm, StartsFromZeroAfterAResetOfThisTupleOnly) {
  TestEngine under_test;
  const Request request = engine_request(GetParam(), 10, 10);
  Request other = request;
  other.identifier = "bob";
  ASSERT_TRUE(under_test.ask(request).admitted());
  ASSERT_TRUE(under_test.ask(other).admitted());
  ASSERT_FALSE(under_test.ask(request).admitted());
  EXPECT_TRUE(*under_test.engine->reset(under_test.clock.now(), request));
  EXPECT_FALSE(*under_test.engine->reset(under_test.clock.now(), request));
  EXPECT_TRUE(under_test.ask(request).admitted());
  EXPECT_FALSE(under_test.ask(request).admitted());
  EXPECT_FALSE(under_test.ask(other).admitted());
  EXPECT_EQ(under_test.engine->stats().tuples, 2u);
}

TEST_P(EveryAlgorithm, HasNothingToResetOnceItHasExpired) {
  TestEngine under_test;
  ASSERT_TRUE(under_test.ask(engine_request(GetParam(), 10, 10)).admitted());
  under_test.clock.advance(Millis(40'000));
  EXPECT_FALSE(*under_test.engine->reset(under_test.clock.now(), engine_request(GetParam())));
}

TEST_P(EveryAlgorithm, IsResetAgainAndAgainWithoutLosingSlots) {
  ManualClock clock;
  const auto engine = Engine::make(clock, Options{.capacity = 64, .seed = 1});
  for (int i = 0; i < 2000; ++i) {
    const std::string name = "user" + std::to_string(i);
    Request request = engine_request(GetParam());
    request.identifier = name;
    ASSERT_EQ(engine->check(clock.now(), request)->basis, Basis::kLocal) << i;
    ASSERT_TRUE(*engine->reset(clock.now(), request));
  }
  EXPECT_EQ(engine->stats().tuples, 0u);
  EXPECT_EQ(engine->stats().sketched, 0u);
}

// Counts at the origin or in the ledger cannot be taken back.
TEST_P(EveryAlgorithm, IsResetInASharedScopeOnlyIfItsCountsAreLocal) {
  ManualClock clock;
  const auto origin = std::make_shared<origins::InProcessOrigin>(clock);
  const auto engine = Engine::make(clock, Options{.origin = origin, .capacity = 1000, .seed = 1});
  Request request = engine_request(GetParam(), 10, 10);
  ASSERT_TRUE(engine->check(clock.now(), request)->admitted());
  const bool merged = memory::class_of(GetParam()) == memory::CellClass::kWindow;
  const std::string algorithm(to_string(GetParam()));
  const auto refused = engine->reset(clock.now(), request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kShared);
  EXPECT_EQ(refused.error().field, merged ? "algorithm" : "consistency");
  EXPECT_EQ(
      refused.error().detail,
      merged
          ? "algorithm is " + algorithm + ", whose counts at the origin or in the ledger only grow"
          : "consistency is converge, so the origin keeps the state of " + algorithm + " tuples");
  EXPECT_FALSE(engine->check(clock.now(), request)->admitted());
  // A relaxed request is counted in the process, unless it is a window.
  request.consistency = Consistency::kRelaxed;
  EXPECT_EQ(engine->reset(clock.now(), request).ok(), !merged);
  EXPECT_EQ(engine->check(clock.now(), request)->admitted(), !merged);
}

TEST(Reset, ReportsATupleThatTheSketchCounts) {
  ManualClock clock;
  const auto engine = Engine::make(clock, Options{.capacity = 64, .seed = 1});
  Request last = engine_request(Algorithm::kGcra);
  std::string name;
  for (int i = 0; engine->stats().sketched == 0 && i < 1000; ++i) {
    name = "user" + std::to_string(i);
    last.identifier = name;
    (void)engine->check(clock.now(), last);
  }
  const auto reset = engine->reset(clock.now(), last);
  ASSERT_FALSE(reset.ok());
  EXPECT_EQ(reset.error().retry, Retry::kMayHelp);
  EXPECT_EQ(reset.error().detail,
            "the table is full, and this tuple shares its counters with others");
}

TEST(Reset, RefusesAnInvalidRequest) {
  TestEngine under_test;
  Request request = engine_request(Algorithm::kGcra);
  request.duration = Millis(1);
  EXPECT_EQ(under_test.engine->reset(under_test.clock.now(), request).error().field, "duration");
}

TEST(Engine, SharesCountsBetweenAlgorithmsOfOneClassOnly) {
  TestEngine under_test;
  ASSERT_TRUE(under_test.ask(engine_request(Algorithm::kFixedWindow, 10, 4)).admitted());
  EXPECT_EQ(under_test.ask(engine_request(Algorithm::kSlidingWindow, 10, 0)).remaining, 6u);
  // Takes the 4 over once, see conversion_test.cc.
  ASSERT_TRUE(under_test.ask(engine_request(Algorithm::kTokenBucket, 10, 3)).admitted());
  EXPECT_EQ(under_test.ask(engine_request(Algorithm::kGcra, 10, 0)).remaining, 3u);
  EXPECT_EQ(under_test.ask(engine_request(Algorithm::kSlidingWindow, 10, 2)).remaining, 4u);
  EXPECT_EQ(under_test.ask(engine_request(Algorithm::kGcra, 10, 0)).remaining, 3u);
}

}  // namespace
}  // namespace weir::decide
