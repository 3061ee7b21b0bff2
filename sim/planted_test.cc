// Bugs planted in the world around the engine (its links, stores and settings), one at a time: a
// checker that is there for it must find each.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/found_test.h"
#include "sim/plant.h"
#include "sim/world.h"

namespace weir::sim {
namespace {

constexpr uint64_t kBugSeeds = 100;  // at most; most bugs are found in the first few

struct WorldBug {
  std::string_view name = {};
  Plant plant = Plant::kNone;
  std::vector<std::string_view> found_by = {};
  int regions = 1;
  Weather weather = Weather::kStormy;
  std::string only = {};
  bool limits_differ = false;
};
WorldBug shared_bug(std::string_view name, Plant plant, std::string_view found_by,
                    std::string only = {}) {
  return {name, plant, {found_by}, 3, Weather::kFair, std::move(only)};
}

class PlantedBug : public ::testing::TestWithParam<WorldBug> {};

TEST_P(PlantedBug, IsFound) {
  expect_found({.regions = GetParam().regions,
                .weather = GetParam().weather,
                .limits_differ = GetParam().limits_differ,
                .plant = GetParam().plant,
                .only = GetParam().only},
               kBugSeeds, GetParam().found_by);
}

INSTANTIATE_TEST_SUITE_P(
    World, PlantedBug,
    ::testing::Values(
        WorldBug{"OriginAdds", Plant::kOriginAdds, {"retrying is free"}},
        WorldBug{"OriginDropsAndHides", Plant::kOriginDropsAndHides, {"the regional bound"}},
        WorldBug{"OriginHidesFalls", Plant::kOriginHidesFalls, {"conservation", "agreement"}},
        WorldBug{
            "OriginReadsStale", Plant::kOriginReadsStale, {"fresh enough", "the regional bound"}},
        WorldBug{"LinkPretends", Plant::kLinkPretends, {"fresh enough", "the regional bound"}},
        WorldBug{
            "LinkFailsAsEmpty", Plant::kLinkFailsAsEmpty, {"fresh enough", "the regional bound"}},
        WorldBug{"LinkHidesEpochs", Plant::kLinkHidesEpochs, {"told in time"}},
        WorldBug{"SameIncarnation",
                 Plant::kSameIncarnation,
                 {"one writer per component", "the regional bound"}},
        WorldBug{"DrainCutShort", Plant::kDrainCutShort, {"conservation"}},
        WorldBug{"TellsTooSeldom", Plant::kTellsTooSeldom, {"told in time"}},
        WorldBug{"DoubleCharge",
                 Plant::kDoubleCharge,
                 {"nobody invents consumption", "honest verdicts"}},
        shared_bug("ForeignPublished", Plant::kForeignPublished, "nobody invents abroad"),
        shared_bug("OwnRowAsForeign", Plant::kOwnRowAsForeign, "nobody invents abroad"),
        shared_bug("NewsSummed", Plant::kNewsSummed, "nobody invents abroad"),
        shared_bug("LeaseForgotten", Plant::kLeaseForgotten, "publish discipline"),
        shared_bug("RegionsUnderestimated", Plant::kRegionsUnderestimated, "publish discipline"),
        WorldBug{"LimitsNotHeard",
                 Plant::kLimitsNotReceived,
                 {"publish discipline"},
                 2,
                 Weather::kFair,
                 {},
                 true},
        WorldBug{"LimitsNotHeardByTheBoundAlone",
                 Plant::kLimitsNotReceived,
                 {"the global bound"},
                 2,
                 Weather::kFair,
                 "the global bound",
                 true},
        shared_bug("RowsPretended", Plant::kRowsPretended, "durability order"),
        shared_bug("NewsDropped", Plant::kNewsDropped, "agreement abroad"),
        WorldBug{"SharesTooSeldom",
                 Plant::kSharesTooSeldom,
                 {"published in time", "agreement abroad"},
                 3,
                 Weather::kFair},
        shared_bug("NewsDroppedByTheBoundAlone", Plant::kNewsDropped, "the global bound",
                   "the global bound"),
        shared_bug("SharesTooSeldomByTheBoundAlone", Plant::kSharesTooSeldom, "the global bound",
                   "the global bound")),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace weir::sim
