// What really happened, known to nobody in the world: every request with its answer, and
// what was accepted where.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "weir/origin.h"
#include "weir/verdict.h"

namespace weir::sim {

// One request that was answered.
struct Answered {
  int node = 0;
  std::string tuple;
  Millis duration{0};
  Algorithm algorithm = Algorithm::kSlidingWindow;
  Count limit = 0;
  Count cost = 0;
  Instant asked{};     // by the node's clock
  Instant answered{};  // by the node's clock
  bool in_batch = false;
  bool charged = false;  // a batch that fails charges nothing
  Verdict verdict;

  // Window verdicts reset at the end of the window they were decided in.
  [[nodiscard]] CellId cell() const {
    return {tuple, verdict.reset.time_since_epoch() / duration - 1};
  }
};

class Truth {
 public:
  void record(const Answered& answered) {
    if (!answered.charged) return;
    by_node_[{answered.node, answered.cell()}] += answered.cost;
    by_cell_[answered.cell()] += answered.cost;
  }
  [[nodiscard]] Count accepted(const CellId& cell) const { return find(by_cell_, cell); }
  [[nodiscard]] Count accepted_by(int node, const CellId& cell) const {
    return find(by_node_, std::pair(node, cell));
  }
  [[nodiscard]] const std::map<CellId, Count>& cells() const { return by_cell_; }

 private:
  template <typename Map>
  static Count find(const Map& map, const typename Map::key_type& key) {
    const auto found = map.find(key);
    return found == map.end() ? 0 : found->second;
  }
  std::map<std::pair<int, CellId>, Count> by_node_;
  std::map<CellId, Count> by_cell_;
};

}  // namespace weir::sim
