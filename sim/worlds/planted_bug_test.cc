// Bugs planted in the world around the engine (its links, stores and settings), one at a time: a
// checker that is there for it must find each.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/faults/planted_bug.h"
#include "sim/worlds/find_violation_test.h"
#include "sim/worlds/world.h"

namespace weir::sim {
namespace {

constexpr uint64_t kBugSeeds = 100;  // at most; most bugs are found in the first few

struct WorldBug {
  std::string_view name = {};
  PlantedBug planted_bug = PlantedBug::kNone;
  std::vector<std::string_view> found_by = {};
  int regions = 1;
  FaultMode faults = FaultMode::kRandom;
  std::string only = {};
  bool limits_differ = false;
};
WorldBug shared_bug(std::string_view name, PlantedBug planted_bug, std::string_view found_by,
                    std::string only = {}) {
  return {name, planted_bug, {found_by}, 3, FaultMode::kNone, std::move(only)};
}

class PlantedBug : public ::testing::TestWithParam<WorldBug> {};

TEST_P(PlantedBug, IsFound) {
  expect_found({.regions = GetParam().regions,
                .faults = GetParam().faults,
                .limits_differ = GetParam().limits_differ,
                .planted_bug = GetParam().planted_bug,
                .only_checker = GetParam().only_checker},
               kBugSeeds, GetParam().found_by);
}

INSTANTIATE_TEST_SUITE_P(
    World, PlantedBug,
    ::testing::Values(
        WorldBug{"OriginAdds", PlantedBug::kOriginAdds, {"retrying is free"}},
        WorldBug{
            "OriginDropsAndHides", PlantedBug::kOriginHidesDroppedWrites, {"the regional bound"}},
        WorldBug{"OriginHidesFalls", PlantedBug::kOriginHidesLosses, {"conservation", "agreement"}},
        WorldBug{"OriginReadsStale",
                 PlantedBug::kOriginReadsStale,
                 {"fresh enough", "the regional bound"}},
        WorldBug{
            "LinkPretends", PlantedBug::kFalseReplayAcks, {"fresh enough", "the regional bound"}},
        WorldBug{"LinkFailsAsEmpty",
                 PlantedBug::kErrorsReadAsEmpty,
                 {"fresh enough", "the regional bound"}},
        WorldBug{"LinkHidesEpochs", PlantedBug::kReconnectsHidden, {"told in time"}},
        WorldBug{"SameIncarnation",
                 PlantedBug::kSameIncarnation,
                 {"one writer per component", "the regional bound"}},
        WorldBug{"DrainCutShort", PlantedBug::kDrainCutShort, {"conservation"}},
        WorldBug{"TellsTooSeldom", PlantedBug::kReplaysTooSeldom, {"told in time"}},
        WorldBug{"DoubleCharge",
                 PlantedBug::kDoubleCharge,
                 {"nobody invents consumption", "honest verdicts"}},
        shared_bug("ForeignPublished", PlantedBug::kForeignPublished, "nobody invents abroad"),
        shared_bug("OwnRowAsForeign", PlantedBug::kOwnRowAsForeign, "nobody invents abroad"),
        shared_bug("NewsSummed", PlantedBug::kChangesSummed, "nobody invents abroad"),
        shared_bug("LeaseForgotten", PlantedBug::kLeaseEndIgnored, "publish discipline"),
        shared_bug("RegionsUnderestimated", PlantedBug::kRegionsUnderestimated,
                   "publish discipline"),
        WorldBug{"LimitsNotHeard",
                 PlantedBug::kLimitsNotReceived,
                 {"publish discipline"},
                 2,
                 FaultMode::kNone,
                 {},
                 true},
        WorldBug{"LimitsNotHeardByTheBoundAlone",
                 PlantedBug::kLimitsNotReceived,
                 {"the global bound"},
                 2,
                 FaultMode::kNone,
                 "the global bound",
                 true},
        shared_bug("RowsPretended", PlantedBug::kFalseRowAcks, "durability order"),
        shared_bug("NewsDropped", PlantedBug::kChangesDropped, "agreement abroad"),
        WorldBug{"SharesTooSeldom",
                 PlantedBug::kSyncsTooSeldom,
                 {"published in time", "agreement abroad"},
                 3,
                 FaultMode::kNone},
        shared_bug("NewsDroppedByTheBoundAlone", PlantedBug::kChangesDropped, "the global bound",
                   "the global bound"),
        shared_bug("SharesTooSeldomByTheBoundAlone", PlantedBug::kSyncsTooSeldom,
                   "the global bound", "the global bound")),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace weir::sim
