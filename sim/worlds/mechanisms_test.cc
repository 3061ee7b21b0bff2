// In how many worlds each mechanism of the engine is at work at all. A bug in one that never acts
// is not found, however many worlds run.
//
// A mechanism acted in a world that reached the line of a planted bug in it, or the state that a
// report shows.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutation.h"
#include "sim/worlds/find_violation_test.h"
#include "sim/worlds/swarm.h"

namespace weir::sim {
namespace {

// Percent: one in ten; of a hundred worlds less their standard deviation.
uint64_t least_share(uint64_t worlds) {
  return worlds < 300 ? 7 : 10;
}

struct Mechanism {
  std::string_view name;
  std::function<bool(const RunReport&)> acted;
};

std::function<bool(const RunReport&)> line_of(base::Mutation mutation) {
  return [mutation](const RunReport&) {
    return base::reached[static_cast<size_t>(mutation)].load(std::memory_order_relaxed);
  };
}

std::function<bool(const RunReport&)> reached(Coverage which) {
  return [which](const RunReport& report) {
    const auto found = report.coverage.find(which);
    return found != report.coverage.end() && found->second > 0;
  };
}

std::vector<Mechanism> mechanisms() {
  using base::Mutation;
  std::vector<Mechanism> all = {
      {"the usage of another algorithm taken over", line_of(Mutation::kConvertedWithoutUnreported)},
      {"two conversions at the same time", line_of(Mutation::kConvertedFromOpen)},
      {"the usage of another duration taken over", line_of(Mutation::kTakenOverAgain)},
      {"a tuple evicted", [](const RunReport& report) { return report.evicted > 0; }},
      {"a tuple counted in the sketch",
       [](const RunReport& report) { return report.sketched > 0; }},
      {"a grant of which the process has not heard", line_of(Mutation::kUncertainIgnored)},
      {"a replay of a grant that nobody used", line_of(Mutation::kReplayLowersGrant)},
      {"a step that tells the siblings of the last window",
       line_of(Mutation::kStepForgetsSiblingsLast)},
      {"a late answer", line_of(Mutation::kLateAsLocal)},
      {"a late answer after a window of our own", line_of(Mutation::kLateForgetsOwnLast)},
      {"an answer for a tuple that was created since",
       line_of(Mutation::kAnswerOfAnotherGeneration)},
      {"a lease", line_of(Mutation::kLeaseWithinCell)},
      {"a new ring or log charged for the last window", line_of(Mutation::kFirstChargeWithoutLast)},
      {"usage of other regions charged to a backlog", line_of(Mutation::kForeignCutToABurst)},
      {"a state that the origin keeps", line_of(Mutation::kToldChargedAgain)},
      {"usage of other regions charged", line_of(Mutation::kForeignChargedAgain)},
      {"a batch taken back", line_of(Mutation::kFailedBatchConsumes)},
      {"a departed process folded", line_of(Mutation::kFoldLost)},
      {"an imported count evaluated", line_of(Mutation::kUnheldNotEvaluated)},
      {"a row for the next window", line_of(Mutation::kNextWindowDropped)},
      {"a relaxed request that must read", line_of(Mutation::kRelaxedUnread)},
  };
  for (int i = 0; i < static_cast<int>(Coverage::kCount); ++i) {
    all.push_back({to_string(static_cast<Coverage>(i)), reached(static_cast<Coverage>(i))});
  }
  return all;
}

TEST(Mechanisms, EachActsInOneWorldOfTen) {
  const std::vector<Mechanism> all = mechanisms();
  std::vector<uint64_t> worlds(all.size());
  const uint64_t seeds = seeds_or(100);
  for (uint64_t seed = kFirstRelaxedSeed; seed < kFirstRelaxedSeed + seeds; ++seed) {
    base::reset_reached();
    const RunReport report = World(world_of(seed)).run();
    EXPECT_FALSE(report.broken) << describe(seed, report);
    for (size_t i = 0; i < all.size(); ++i) worlds[i] += all[i].acted(report) ? 1 : 0;
  }
  std::printf("worlds  mechanism\n");
  for (size_t i = 0; i < all.size(); ++i) {
    const uint64_t percent = 100 * worlds[i] / seeds;
    std::printf("%4d %%  %s\n", static_cast<int>(percent), std::string(all[i].name).c_str());
    EXPECT_GE(percent, least_share(seeds)) << all[i].name;
  }
}

}  // namespace
}  // namespace weir::sim
