#include "lab/comparison.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "lab/decision_cost.h"
#include "lab/shapes.h"

namespace weir::lab {
namespace {

// Bursts at one tick, pauses up to two durations, costs up to a little more than the limit.
Traffic random_traffic(const Limit& limit) {
  Traffic traffic{.name = "random", .keys = {"a", "b", "c"}, .arrivals = {}};
  WallTime now(Millis(*rc::gen::inRange<int64_t>(0, 1'800'000'000'000)));
  for (int i = 0; i < 200; ++i) {
    const int64_t pause = *rc::gen::weightedOneOf<int64_t>(
        {{4, rc::gen::just<int64_t>(0)},
         {4, rc::gen::inRange<int64_t>(0, limit.duration.count() / 8)},
         {1, rc::gen::inRange<int64_t>(0, 2 * limit.duration.count())}});
    now += Millis(pause);
    traffic.arrivals.push_back(
        {.at = now,
         .cost = *rc::gen::weightedOneOf<Count>(
             {{6, rc::gen::just<Count>(1)}, {2, rc::gen::inRange<Count>(0, limit.limit + 2)}}),
         .key = *rc::gen::inRange<uint32_t>(0, 3)});
  }
  return traffic;
}

Limit random_limit() {
  const Count limit = *rc::gen::inRange<Count>(1, 30);
  return {.limit = limit,
          .duration = Millis(*rc::gen::inRange<int64_t>(100, 3000)),
          .burst = *rc::gen::inRange<Count>(1, 40)};
}

// By definition: for every admission the sum over all admissions of its key.
Count naive_worst_window(const Traffic& traffic, const Decisions& decisions, Millis duration) {
  Count worst = 0;
  for (const Arrival& last : traffic.arrivals) {
    Count sum = 0;
    for (size_t i = 0; i < decisions.size(); ++i) {
      const Arrival& each = traffic.arrivals[i];
      const bool inside = each.at > last.at - duration && each.at <= last.at;
      if (decisions[i] && each.key == last.key && inside) sum += each.cost;
    }
    worst = std::max(worst, sum);
  }
  return worst;
}

RC_GTEST_PROP(WorstWindow, IsThatOfTheDefinition, ()) {
  const Limit limit = random_limit();
  const Traffic traffic = random_traffic(limit);
  for (const AlgorithmResult& result : compare(traffic, limit).results) {
    RC_ASSERT(result.worst_window == naive_worst_window(traffic, result.decisions, limit.duration));
  }
}

RC_GTEST_PROP(Comparison, NeverFindsTheLogOrTheStrictWindowAboveTheLimit, ()) {
  const Limit limit = random_limit();
  const Comparison comparison = compare(random_traffic(limit), limit);
  RC_ASSERT(comparison.of(Algorithm::kSlidingLog).worst_window <= limit.limit);
  RC_ASSERT(comparison.of(Algorithm::kSlidingWindowStrict).worst_window <= limit.limit);
}

RC_GTEST_PROP(Comparison, NeverFindsTheOthersAboveTheirBounds, ()) {
  const Limit limit = random_limit();
  const Comparison comparison = compare(random_traffic(limit), limit);
  RC_ASSERT(comparison.of(Algorithm::kFixedWindow).worst_window <= 2 * limit.limit);
  RC_ASSERT(comparison.of(Algorithm::kSlidingWindow).worst_window <= 2 * limit.limit);
  RC_ASSERT(comparison.of(Algorithm::kGcra).worst_window < limit.burst + limit.limit);
}

RC_GTEST_PROP(Comparison, FindsGcraWithABurstOfOneWithinTheLimit, ()) {
  Limit limit = random_limit();
  limit.burst = 1;
  const Comparison comparison = compare(random_traffic(limit), limit);
  RC_ASSERT(comparison.of(Algorithm::kGcra).worst_window <= limit.limit);
}

RC_GTEST_PROP(Comparison, CountsEveryRequestOnceAndNoErrorOfTheLog, ()) {
  const Limit limit = random_limit();
  const Traffic traffic = random_traffic(limit);
  const Comparison comparison = compare(traffic, limit);
  RC_ASSERT(comparison.results.size() == kAlgorithms.size());
  for (const AlgorithmResult& result : comparison.results) {
    RC_ASSERT(result.admitted + result.denied == traffic.arrivals.size());
    RC_ASSERT(result.differences.sum() <= traffic.arrivals.size());
  }
  RC_ASSERT(comparison.of(Algorithm::kSlidingLog).differences.sum() == 0u);
  RC_ASSERT(comparison.error_percent(comparison.of(Algorithm::kSlidingLog)) == 0.0);
  RC_ASSERT(comparison.of(Algorithm::kGcra).decisions ==
            comparison.of(Algorithm::kTokenBucket).decisions);
}

RC_GTEST_PROP(Comparison, DecidesAsTheLibrary, ()) {
  const Limit limit = random_limit();
  const Traffic traffic = random_traffic(limit);
  for (const Algorithm algorithm : kAlgorithms) {
    const auto library = run_library(traffic, limit, algorithm);
    RC_ASSERT(library.has_value());
    RC_ASSERT(library->decisions == decide(traffic, limit, algorithm));
  }
}

TEST(Comparison, DecidesAsTheLibraryOnEveryShape) {
  const ShapeSettings settings{.requests = 5000};
  for (const Shape& shape : shapes()) {
    const Traffic traffic = make_traffic(shape, settings);
    for (const Algorithm algorithm : kAlgorithms) {
      const auto library = run_library(traffic, settings.limit, algorithm);
      ASSERT_TRUE(library.has_value());
      EXPECT_EQ(library->decisions, decide(traffic, settings.limit, algorithm))
          << shape.name << " " << to_string(algorithm);
    }
  }
}

TEST(Differences, SeparateBothKindsOfError) {
  const Differences found = differences({true, true, false, false}, {true, false, true, false});
  EXPECT_EQ(found.wrongly_allowed, 1u);
  EXPECT_EQ(found.wrongly_refused, 1u);
  EXPECT_EQ(found.sum(), 2u);
}

TEST(LibraryRun, IsLeftOutWhereTheLibraryWouldNeedTooMuchMemory) {
  Traffic traffic{.name = "many", .keys = {}, .arrivals = {}};
  for (uint32_t i = 0; i < 10'000; ++i) {
    traffic.keys.push_back("client-" + std::to_string(i));
    traffic.arrivals.push_back({.key = i});
  }
  const Limit limit{.limit = kMaxLogLimit};
  EXPECT_FALSE(run_library(traffic, limit, Algorithm::kSlidingLog).has_value());
  EXPECT_TRUE(run_library(traffic, limit, Algorithm::kGcra).has_value());
  traffic.arrivals.resize(100);  // of few keys
  EXPECT_TRUE(run_library(traffic, limit, Algorithm::kSlidingLog).has_value());
  traffic.arrivals.clear();
  EXPECT_FALSE(run_library(traffic, limit, Algorithm::kGcra).has_value());
}

}  // namespace
}  // namespace weir::lab
