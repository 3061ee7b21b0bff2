// Bugs planted in allowances and steps, one at a time. Bursts on several processes must show each.

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/mutation.h"
#include "origins/step_rule.h"
#include "regional/burst_fixture_test.h"
#include "sim/worlds/burst_bugs_test.h"

namespace weir::regional {
namespace {

using base::Mutation;

constexpr uint64_t kConvergePermille = 1250;
constexpr int kRuns = 30;

class Planted {
 public:
  explicit Planted(Mutation mutation) { base::planted = mutation; }
  ~Planted() { base::planted = Mutation::kNone; }
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
};

// Whether random schedules exceed the bound.
bool schedules_break_the_bound(BurstOptions options) {
  for (int run = 0; run < kRuns; ++run) {
    options.seed = static_cast<uint64_t>(run) * 104'729 + 1;
    BurstRegion region(options);
    if (run % 2 == 0) region.settle();
    region.run();
    if (region.worst_permille() > kConvergePermille + 2000 / options.limit) return true;
  }
  return false;
}

// Whether steady requests, which need no step because replays read the counts, exceed the bound.
bool steady_requests_break_the_bound() {
  BurstRegion region({.nodes = 4, .limit = 400});
  region.settle();
  region.to_next_window();
  for (int i = 0; i < 300; ++i) {
    region.burst(2);
    region.pass(Millis(20));
    region.deliver_all();
  }
  return region.worst_permille() > kConvergePermille;
}

// Every process reads the tuple. Then all but the first use up their allowances, or more, and the
// first asks for the rest.
void burst_after_a_read(BurstRegion& region, size_t nodes, int requests, int rest = 300) {
  region.burst(1);
  region.deliver_all();
  for (size_t node = 1; node < nodes; ++node) {
    for (int i = 0; i < requests; ++i) region.send_request(node);
  }
  for (int i = 0; i < rest; ++i) region.send_request(0);
}

// Whether processes that have not heard of each other exceed the limit.
bool first_window_exceeds() {
  BurstRegion region({.nodes = 5, .limit = 400});
  burst_after_a_read(region, 5, 50);
  region.deliver_all();
  return region.admitted_in_this_window() > 400;
}

bool burst_breaks_the_bound() {
  BurstRegion region({.nodes = 3, .limit = 400});
  region.settle();
  region.to_next_window();
  burst_after_a_read(region, 3, 32);
  region.deliver_all();
  return region.worst_permille() > kConvergePermille;
}

bool late_answers_break_the_bound() {
  BurstRegion region({.nodes = 3, .limit = 400, .on_origin_loss = OnOriginLoss::kLocal});
  region.settle();
  region.to_next_window();
  burst_after_a_read(region, 3, 200);
  region.pass(Millis(2000));
  region.deliver_all();
  return region.worst_permille() > kConvergePermille;
}

// Whether the processes do not admit exactly the limit in windows after a refusal.
bool later_windows_are_inexact(BurstOptions options) {
  BurstRegion region(options);
  region.settle();
  bool inexact = false;
  for (int window = 0; window < 6; ++window) {
    region.to_next_window();
    burst_after_a_read(region, options.nodes, 3);
    region.deliver_all();
    inexact = inexact || (window > 0 && region.admitted_in_this_window() != options.limit);
    for (int i = 0; i < 20; ++i) {
      region.pass(Millis(100));
      region.deliver_all();
    }
  }
  return inexact;
}

// Whether processes admit more than the limit of a state that the origin keeps, after a refusal: a
// burst on all of them, whenever all of the last one has left or drained.
bool later_bursts_exceed_the_limit() {
  for (const Algorithm algorithm : {Algorithm::kGcra, Algorithm::kTokenBucket,
                                    Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog}) {
    BurstRegion region({.nodes = 4, .limit = 80, .algorithm = algorithm});
    region.settle();
    region.burst(1);
    region.deliver_all();
    Count before = 0;
    for (int burst = 0; burst < 4; ++burst) {
      for (int i = 0; i < 110; ++i) {
        region.pass(Millis(100));
        region.deliver_all();
      }
      burst_after_a_read(region, 4, 3, 100);
      region.deliver_all();
      const Count admitted = region.admitted() - std::exchange(before, region.admitted());
      if (burst > 0 && admitted > 80) return true;
    }
  }
  return false;
}

// Whether a step grants one more than fits.
bool step_exceeds() {
  const CellStep step{.cell = {},
                      .writer = {},
                      .own = 10,
                      .own_last = 40,
                      .foreign = 50,
                      .duration = Millis(1000),
                      .asks = {{.cost = 20, .limit = 100, .rest = Millis(500)},
                               {.cost = 1, .limit = 100, .rest = Millis(500)}}};
  return origins::grant(step, {.mine = 10}, {.mine = 40}).granted != std::vector<bool>{true, false};
}

struct Bug {
  const char* name;
  Mutation mutation;
  std::function<bool()> shows;
};

const std::vector<Bug>& bugs();

TEST(BurstBugs, AreAllListed) {
  std::set<Mutation> tested;
  for (const Bug& bug : bugs()) tested.insert(bug.mutation);
  for (const Mutation mutation : sim::kBurstMutations) EXPECT_EQ(tested.count(mutation), 1u);
}

class BurstBugTest : public ::testing::TestWithParam<Bug> {};

TEST_P(BurstBugTest, IsFound) {
  EXPECT_FALSE(GetParam().shows()) << "without a planted bug";
  const Planted planted(GetParam().mutation);
  EXPECT_TRUE(GetParam().shows());
}

const std::vector<Bug>& bugs() {
  static const std::vector<Bug> kBugs = {
      Bug{"AllowanceByAcknowledgement", Mutation::kFreshByAcknowledgement,
          steady_requests_break_the_bound},
      Bug{"AllowanceWithoutExpiry", Mutation::kAllowanceWithoutExpiry,
          [] {
            return schedules_break_the_bound(
                {.nodes = 3, .limit = 400, .paused_permille = 900, .joined_permille = 900});
          }},
      Bug{"AllowanceOfWholeRemainder", Mutation::kAllowanceOfWholeRemainder,
          [] { return schedules_break_the_bound({.nodes = 4, .limit = 400}); }},
      Bug{"AloneBeforeHeartbeat", Mutation::kAloneBeforeHeartbeat, first_window_exceeds},
      Bug{"RefusalsPrivate", Mutation::kRefusalsPrivate,
          [] { return later_windows_are_inexact({.nodes = 4, .limit = 80}); }},
      Bug{"ExactRefusalsPrivate", Mutation::kRefusalsPrivate, later_bursts_exceed_the_limit},
      Bug{"AllowanceOfAnotherLimit", Mutation::kAllowanceOfAnotherLimit, burst_breaks_the_bound},
      Bug{"StepAdds", Mutation::kStepAdds,
          [] {
            return later_windows_are_inexact({.nodes = 4, .limit = 80, .repeated_permille = 500});
          }},
      Bug{"StepIgnoresForeign", Mutation::kStepIgnoresForeign, step_exceeds},
      Bug{"StepIgnoresLast", Mutation::kStepIgnoresLast, step_exceeds},
      Bug{"LateAsLocal", Mutation::kLateAsLocal, late_answers_break_the_bound}};
  return kBugs;
}

INSTANTIATE_TEST_SUITE_P(Burst, BurstBugTest, ::testing::ValuesIn(bugs()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace weir::regional
