// No burst multiplies a limit: what the processes of a region admit together, under adversarial
// schedules.

#include <gtest/gtest.h>

#include <span>

#include "regional/burst_fixture_test.h"
#include "tests/effort.h"

namespace weir::regional {
namespace {

// At most 1.25 times the limit, and the rounding of the last window.
constexpr uint64_t kConvergePermille = 1250;

// The issue that the allowance solves: the same burst on all processes at every window start.
TEST(Burst, OnAllProcessesAdmitsTheLimitInEveryWindow) {
  for (const uint32_t nodes : {2U, 3U, 4U, 10U}) {
    BurstRegion region({.nodes = nodes, .limit = 80});
    region.settle();
    for (int window = 0; window < 6; ++window) {
      region.to_next_window();
      region.burst(100);
      region.deliver_all();
      const Count admitted = region.admitted_in_this_window();
      EXPECT_GE(admitted, 80u) << nodes << " nodes, window " << window;
      EXPECT_LE(admitted, window == 0 ? 100u : 80u) << nodes << " nodes, window " << window;
      for (int i = 0; i < 20; ++i) {
        region.pass(Millis(100));
        region.deliver_all();
      }
    }
  }
}

TEST(Burst, OnALimitBelowTheNumberOfProcessesAdmitsTheLimit) {
  BurstRegion region({.nodes = 4, .limit = 2});
  region.settle();
  for (int window = 0; window < 4; ++window) {
    region.to_next_window();
    region.burst(5);
    region.deliver_all();
    EXPECT_EQ(region.admitted_in_this_window(), 2u);
  }
}

TEST(Burst, InTheFirstWindowOfProcessesThatKnowNothingOfEachOtherAdmitsTheLimit) {
  BurstRegion region({.nodes = 5, .limit = 1000});
  region.burst(1000);
  region.deliver_all();
  EXPECT_EQ(region.admitted_in_this_window(), 1000u);
}

TEST(Burst, IsExactWhenTheOriginDecidesEveryAdmission) {
  BurstRegion region({.nodes = 5, .limit = 100, .consistency = Consistency::kExact});
  region.settle();
  for (int window = 0; window < 4; ++window) {
    region.to_next_window();
    region.burst(70);
    region.deliver_all();
    EXPECT_EQ(region.admitted_in_this_window(), 100u);
  }
}

TEST(Burst, MultipliesARelaxedLimit) {
  BurstRegion region({.nodes = 5, .limit = 100, .consistency = Consistency::kRelaxed});
  region.settle();
  region.burst(1);
  region.deliver_all();
  region.to_next_window();
  region.burst(150);
  EXPECT_GT(region.admitted_in_this_window(), 400u);
}

constexpr Algorithm kUnmerged[] = {Algorithm::kGcra, Algorithm::kTokenBucket,
                                   Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog};

// The same of the algorithms whose whole state the origin keeps. After a refusal it decides every
// request, for the time of two windows.
TEST(Burst, OnAllProcessesAdmitsTheLimitOfEveryAlgorithm) {
  for (const Algorithm algorithm : kUnmerged) {
    SCOPED_TRACE(to_string(algorithm));
    for (const uint32_t nodes : {2U, 3U, 4U, 10U}) {
      BurstRegion region({.nodes = nodes, .limit = 80, .algorithm = algorithm});
      region.settle();
      region.burst(1);
      region.deliver_all();
      Count before = 0;
      for (int window = 0; window < 6; ++window) {
        // All sub-windows of the last burst have left by then.
        for (int i = 0; i < 110; ++i) {
          region.pass(Millis(100));
          region.deliver_all();
        }
        region.burst(100);
        region.deliver_all();
        const Count admitted = region.admitted() - std::exchange(before, region.admitted());
        EXPECT_GE(admitted, 80u) << nodes << " nodes, window " << window;
        EXPECT_LE(admitted, window == 0 ? 100u : 80u) << nodes << " nodes, window " << window;
      }
    }
  }
}

TEST(Burst, OfManyRequestsBelowTheLimitAsksTheOriginForFew) {
  for (const Algorithm algorithm : kUnmerged) {
    BurstRegion region({.nodes = 3, .limit = 300, .algorithm = algorithm});
    region.settle();
    region.burst(1);
    region.deliver_all();
    const uint64_t asked = region.steps();
    for (int i = 0; i < 50; ++i) {
      region.burst(1);
      region.pass(Millis(20));
      region.deliver_all();
    }
    EXPECT_EQ(region.admitted(), 153u) << to_string(algorithm);
    EXPECT_EQ(region.steps(), asked) << "nobody waits: " << to_string(algorithm);
  }
}

struct Case {
  const char* name;
  BurstOptions options;
};

class Schedules : public ::testing::TestWithParam<Case> {};

// Runs the case with many schedules, each with one of the algorithms and, if the case has none, one
// of the limits.
void expect_bound(const Case& test, std::span<const Algorithm> algorithms,
                  std::span<const Count> limits) {
  const int runs = static_cast<int>(generated_cases(300));
  uint64_t worst = 0;
  for (int run = 0; run < runs; ++run) {
    BurstOptions options = test.options;
    options.seed = static_cast<uint64_t>(run) * 7919 + 1;
    uint64_t random = options.seed;
    if (options.nodes == 0) options.nodes = 2 + static_cast<uint32_t>(base::split_mix(random) % 29);
    if (options.limit == 0) options.limit = limits[base::split_mix(random) % limits.size()];
    options.algorithm = algorithms[base::split_mix(random) % algorithms.size()];
    options.most_cost = std::min(options.most_cost, options.limit);
    BurstRegion region(options);
    if (base::split_mix(random) % 4 != 0) region.settle();
    region.run();
    worst = std::max(worst, region.worst_permille());
    // Two roundings lose up to one unit each.
    ASSERT_LE(region.worst_permille(), kConvergePermille + 2000 / options.limit)
        << "run " << run << ", " << to_string(options.algorithm) << ": " << options.nodes
        << " nodes, limit " << options.limit;
  }
  ::testing::Test::RecordProperty("worst_permille", static_cast<int>(worst));
  std::cout << test.name << ": worst " << worst << " permille\n";
}

TEST_P(Schedules, KeepTheBound) {
  constexpr Algorithm kWindows[] = {Algorithm::kFixedWindow, Algorithm::kSlidingWindow};
  constexpr Count kLimits[] = {1, 2, 5, 20, 64, 200, 3000, 1'000'000};
  expect_bound(GetParam(), kWindows, kLimits);
}

TEST_P(Schedules, OfUnmergedAlgorithmsKeepTheBound) {
  constexpr Count kLimits[] = {1, 2, 5, 20, 64, 200, 3000, 10'000};  // a log has no larger one
  expect_bound(GetParam(), kUnmerged, kLimits);
}

INSTANTIATE_TEST_SUITE_P(
    Burst, Schedules,
    ::testing::Values(
        Case{"plain", {.nodes = 0, .limit = 0}}, Case{"two_nodes", {.nodes = 2, .limit = 0}},
        Case{"costs", {.nodes = 0, .limit = 0, .most_cost = 9}},
        Case{"joins", {.nodes = 2, .limit = 0, .joined_permille = 900}},
        Case{"pauses", {.nodes = 0, .limit = 0, .paused_permille = 500}},
        Case{"losses", {.nodes = 4, .limit = 0, .lost_permille = 100, .repeated_permille = 100}},
        Case{"late",
             {.nodes = 4, .limit = 0, .on_origin_loss = OnOriginLoss::kLocal, .late = true}},
        Case{"all",
             {.nodes = 0,
              .limit = 0,
              .most_cost = 5,
              .lost_permille = 50,
              .repeated_permille = 50,
              .paused_permille = 300,
              .joined_permille = 500}},
        Case{"changed_limits", {.nodes = 3, .limit = 0, .changes_limit = true}},
        Case{"short_windows", {.nodes = 0, .limit = 0, .duration = Millis(1000)}}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace weir::regional
