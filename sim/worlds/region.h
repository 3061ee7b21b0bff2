// A region of a world: an origin and the nodes that share it, or one node without an origin.

#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/nodes/node.h"
#include "sim/stores/watched_origin.h"

namespace weir::sim {

// Belongs to the timeline.
struct Region {
  Region(int number, std::string its_name) : index(number), name(std::move(its_name)) {}

  const int index;
  const std::string name;
  bool has_origin = true;  // if not, `origin` stays empty
  std::unique_ptr<WatchedOrigin> origin;
  const Node* bridge = nullptr;  // the last node that was the bridge
  std::vector<std::unique_ptr<Node>> nodes;
  Connectivity origin_connectivity = Connectivity::kUp;
  Connectivity ledger_connectivity = Connectivity::kUp;
  uint64_t admitted_isolated = 0, denied_isolated = 0;  // while the ledger was unreachable
  // Of tuples whose state the origin keeps, by tuple and incarnation.
  std::map<std::pair<std::string, uint64_t>, Count> admitted_alone;  // by the allowance
  std::set<std::pair<std::string, uint64_t>> degraded;               // admitted without the origin
};

}  // namespace weir::sim
