#include "lab/shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace weir::lab {
namespace {

Traffic make(std::string_view name, const ShapeSettings& settings = {}) {
  return make_traffic(*find_shape(name), settings);
}

// Requests in [from_ms, to_ms).
size_t between(const Traffic& traffic, int64_t from_ms, int64_t to_ms) {
  return static_cast<size_t>(std::ranges::count_if(traffic.arrivals, [&](const Arrival& each) {
    return each.at >= WallTime(Millis(from_ms)) && each.at < WallTime(Millis(to_ms));
  }));
}

TEST(Shapes, AreSevenWithDifferentNames) {
  std::set<std::string_view> names;
  for (const Shape& shape : shapes()) names.insert(shape.name);
  EXPECT_EQ(names.size(), 7u);
  EXPECT_EQ(find_shape("none"), nullptr);
  EXPECT_EQ(find_shape("poisson")->name, "poisson");
}

RC_GTEST_PROP(Shapes, HaveTheRequestedNumberOfRequestsInTheOrderOfTime, ()) {
  const ShapeSettings settings{
      .limit = {.limit = *rc::gen::inRange<Count>(1, 10'001),
                .duration = Millis(*rc::gen::inRange<int64_t>(100, 2'592'000'001))},
      .requests = *rc::gen::inRange<size_t>(1, 500),
      .seed = *rc::gen::arbitrary<uint64_t>()};
  for (const Shape& shape : shapes()) {
    const Traffic traffic = make_traffic(shape, settings);
    RC_ASSERT(traffic.name == shape.name);
    RC_ASSERT(traffic.arrivals.size() == settings.requests);
    RC_ASSERT(std::ranges::is_sorted(traffic.arrivals, {}, &Arrival::at));
    RC_ASSERT(traffic.arrivals.front().at >= WallTime{});
    for (const Arrival& each : traffic.arrivals) {
      RC_ASSERT(each.key < traffic.keys.size());
      RC_ASSERT(each.cost == 1u);
    }
  }
}

TEST(Shapes, AreTheSameForOneSeedAndDifferForAnother) {
  const auto ticks = [](std::string_view name, uint64_t seed) {
    std::vector<int64_t> all;
    for (const Arrival& each : make(name, {.seed = seed}).arrivals) {
      all.push_back(each.at.time_since_epoch().count() * 10'000 + each.key);
    }
    return all;
  };
  for (const char* name : {"poisson", "skewed"}) {
    EXPECT_EQ(ticks(name, 1), ticks(name, 1)) << name;
    EXPECT_NE(ticks(name, 1), ticks(name, 2)) << name;
  }
}

TEST(Shapes, OfferASteadyRate) {
  EXPECT_EQ(between(make("steady-below"), 0, 1000), 80u);
  EXPECT_EQ(between(make("steady-below"), 5000, 6000), 80u);
  EXPECT_EQ(between(make("steady-above"), 0, 1000), 150u);
  EXPECT_EQ(between(make("steady-above"), 5000, 6000), 150u);
}

TEST(Shapes, DrawPoissonTrafficAtTheLimitOnAverage) {
  const Traffic traffic = make("poisson");
  EXPECT_GT(traffic.arrivals.back().at, WallTime(Millis(199'000)));
  EXPECT_LE(traffic.arrivals.back().at, WallTime(Millis(200'000)));
}

TEST(Shapes, SendInLockStepAtTheFirstTickOfEachWindow) {
  const Traffic traffic = make("lock-step");
  EXPECT_EQ(between(traffic, 0, 1), 150u);
  EXPECT_EQ(between(traffic, 1, 1000), 0u);
  EXPECT_EQ(between(traffic, 1000, 1001), 150u);
}

TEST(Shapes, SendTheLimitOnBothSidesOfABoundary) {
  const Traffic traffic = make("boundary-burst");
  EXPECT_EQ(between(traffic, 0, 950), 0u);
  EXPECT_EQ(between(traffic, 950, 1000), 100u);
  EXPECT_EQ(between(traffic, 1000, 1050), 100u);
  EXPECT_EQ(between(traffic, 1050, 4950), 0u);
  EXPECT_EQ(between(traffic, 4950, 5000), 100u);
}

TEST(Shapes, SendOnAndOff) {
  const Traffic traffic = make("on-off");
  EXPECT_EQ(between(traffic, 0, 1500), 450u);
  EXPECT_EQ(between(traffic, 1500, 3700), 0u);
  EXPECT_EQ(between(traffic, 3700, 5200), 450u);
}

TEST(Shapes, GiveTheBusiestOfManyKeysTheLimit) {
  const Traffic traffic = make("skewed");
  std::map<uint32_t, size_t> requests;
  for (const Arrival& each : traffic.arrivals) ++requests[each.key];
  EXPECT_EQ(requests.size(), traffic.keys.size());  // no key without requests
  const auto busiest =
      std::ranges::max_element(requests, {}, [](auto& each) { return each.second; });
  EXPECT_EQ(traffic.keys[busiest->first], "client-1");
  const double seconds = double(traffic.arrivals.back().at.time_since_epoch().count()) / 1000;
  EXPECT_NEAR(double(busiest->second) / seconds, 100, 5);
}

}  // namespace
}  // namespace weir::lab
