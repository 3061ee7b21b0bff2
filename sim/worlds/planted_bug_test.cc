// Bugs planted around the engine, in links, stores and settings, one at a time. A checker must find
// each of them.

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
  std::string only_checker = {};
  bool limits_differ = false;
  bool kills_bridges = false;
};
WorldBug region_bug(std::string_view name, PlantedBug planted_bug, std::string_view found_by,
                    std::string only_checker = {}) {
  return {name, planted_bug, {found_by}, 3, FaultMode::kNone, std::move(only_checker)};
}

class PlantedBugTest : public ::testing::TestWithParam<WorldBug> {};

TEST_P(PlantedBugTest, IsFound) {
  expect_found({.regions = GetParam().regions,
                .faults = GetParam().faults,
                .limits_differ = GetParam().limits_differ,
                .kills_bridges = GetParam().kills_bridges,
                .planted_bug = GetParam().planted_bug,
                .only_checker = GetParam().only_checker},
               kBugSeeds, GetParam().found_by);
}

INSTANTIATE_TEST_SUITE_P(
    World, PlantedBugTest,
    ::testing::Values(
        WorldBug{"OriginAdds", PlantedBug::kOriginAdds, {"idempotent replay"}},
        WorldBug{"OriginHidesDroppedWrites",
                 PlantedBug::kOriginHidesDroppedWrites,
                 {"the regional bound"}},
        WorldBug{
            "OriginHidesLosses", PlantedBug::kOriginHidesLosses, {"conservation", "agreement"}},
        WorldBug{"OriginReadsStale",
                 PlantedBug::kOriginReadsStale,
                 {"fresh enough", "the regional bound"}},
        WorldBug{"FalseReplayAcks",
                 PlantedBug::kFalseReplayAcks,
                 {"fresh enough", "the regional bound"}},
        WorldBug{"ErrorsReadAsEmpty",
                 PlantedBug::kErrorsReadAsEmpty,
                 {"fresh enough", "the regional bound"}},
        WorldBug{"ReconnectsHidden", PlantedBug::kReconnectsHidden, {"acked in time"}},
        WorldBug{"SameIncarnation",
                 PlantedBug::kSameIncarnation,
                 {"one writer per component", "the regional bound"}},
        WorldBug{"DrainCutShort", PlantedBug::kDrainCutShort, {"conservation"}},
        WorldBug{"ReplaysTooSeldom", PlantedBug::kReplaysTooSeldom, {"acked in time"}},
        WorldBug{"DoubleCharge",
                 PlantedBug::kDoubleCharge,
                 {"no invented counts", "consistent verdicts"}},
        region_bug("ForeignPublished", PlantedBug::kForeignPublished, "no invented foreign counts"),
        region_bug("OwnRowAsForeign", PlantedBug::kOwnRowAsForeign, "no invented foreign counts"),
        region_bug("ChangesSummed", PlantedBug::kChangesSummed, "no invented foreign counts"),
        // The origin has a lease that no other region has seen.
        region_bug("LeaseEndIgnored", PlantedBug::kLeaseEndIgnored, "durability order"),
        region_bug("LeasesShortened", PlantedBug::kLeasesShortened, "durability order"),
        region_bug("LeasesShortenedByTheOracleAlone", PlantedBug::kLeasesShortened,
                   "published in time", "published in time"),
        region_bug("ForeignLowered", PlantedBug::kForeignLowered, "published never decreases"),
        region_bug("RegionsUnderestimated", PlantedBug::kRegionsUnderestimated,
                   "published in time"),
        WorldBug{"LimitsNotReceived",
                 PlantedBug::kLimitsNotReceived,
                 {"publish rule", "published in time"},
                 2,
                 FaultMode::kNone,
                 {},
                 true},
        WorldBug{"LimitsNotReceivedByTheBoundAlone",
                 PlantedBug::kLimitsNotReceived,
                 {"the global bound"},
                 2,
                 FaultMode::kNone,
                 "the global bound",
                 true},
        region_bug("FalseRowAcks", PlantedBug::kFalseRowAcks, "durability order"),
        region_bug("ChangesDropped", PlantedBug::kChangesDropped, "agreement across regions"),
        WorldBug{"SyncsTooSeldom",
                 PlantedBug::kSyncsTooSeldom,
                 {"published in time", "agreement across regions"},
                 3,
                 FaultMode::kNone},
        region_bug("ChangesDroppedByTheBoundAlone", PlantedBug::kChangesDropped, "the global bound",
                   "the global bound"),
        region_bug("SyncsTooSeldomByTheBoundAlone", PlantedBug::kSyncsTooSeldom, "the global bound",
                   "the global bound")),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace weir::sim
