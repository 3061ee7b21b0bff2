// A region of the world: an origin, the nodes that share it, and what really happened there.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/checker.h"
#include "sim/node.h"
#include "sim/watched_origin.h"

namespace weir::sim {

// Lives on the timeline.
struct Region {
  Region(int number, std::string its_name) : index(number), name(std::move(its_name)) {}

  const int index;
  const std::string name;
  std::unique_ptr<WatchedOrigin> origin;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<NodeView> views;
  std::vector<std::unique_ptr<Checker>> checkers = all_checkers();
  Truth truth;
  Road origin_road = Road::kOpen;
  Road ledger_road = Road::kOpen;
  uint64_t admitted_alone = 0, denied_alone = 0;  // while the ledger could not be reached
};

}  // namespace weir::sim
