// A region of a world: an origin and the nodes that share it.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/nodes/node.h"
#include "sim/stores/watched_origin.h"

namespace weir::sim {

// Belongs to the timeline.
struct Region {
  Region(int number, std::string its_name) : index(number), name(std::move(its_name)) {}

  const int index;
  const std::string name;
  std::unique_ptr<WatchedOrigin> origin;
  std::vector<std::unique_ptr<Node>> nodes;
  Connectivity origin_connectivity = Connectivity::kUp;
  Connectivity ledger_connectivity = Connectivity::kUp;
  uint64_t admitted_isolated = 0, denied_isolated = 0;  // while the ledger was unreachable
};

}  // namespace weir::sim
