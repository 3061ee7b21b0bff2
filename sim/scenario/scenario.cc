#include "sim/scenario/scenario.h"

#include <algorithm>

namespace weir::sim {

SyncRules floor_rules() {
  return {.policy = PublishPolicy::kFloor,
          .publish_every = Millis(10'000),
          .import_every = Millis(10'000),
          .rows_per_second = 1'000'000,
          .floor_permille = 500};
}

std::vector<RegionPlan> even_fleet(const EvenFleet& fleet) {
  std::vector<RegionPlan> plans;
  const Millis further = fleet.to_ledger_last - fleet.to_ledger_first;
  for (uint32_t i = 0; i < fleet.regions; ++i) {
    const Millis far = fleet.to_ledger_first + further * i / std::max(1U, fleet.regions - 1);
    plans.push_back({.name = std::string("r").append(std::to_string(i)),
                     .nodes = fleet.nodes / fleet.regions + (i < fleet.nodes % fleet.regions),
                     .to_origin = {fleet.to_origin, fleet.to_origin},
                     .to_ledger = {far, far}});
  }
  return plans;
}

}  // namespace weir::sim
