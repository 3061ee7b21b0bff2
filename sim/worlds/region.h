// A region of the world: an origin, the nodes that share it, and what really happened there.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/checkers/region_checker.h"
#include "sim/nodes/node.h"
#include "sim/stores/watched_origin.h"

namespace weir::sim {

// Lives on the timeline.
struct Region {
  Region(int number, std::string its_name) : index(number), name(std::move(its_name)) {}

  const int index;
  const std::string name;
  std::unique_ptr<WatchedOrigin> origin;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<NodeView> views;
  std::vector<std::unique_ptr<RegionChecker>> checkers = all_region_checkers();
  Oracle oracle;
  Connectivity origin_connectivity = Connectivity::kUp;
  Connectivity ledger_connectivity = Connectivity::kUp;
  uint64_t admitted_isolated = 0, denied_isolated = 0;  // while the ledger could not be reached
};

}  // namespace weir::sim
