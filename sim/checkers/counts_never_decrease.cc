// Own, siblings and foreign never decrease while a cell is live.

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class CountsNeverDecrease final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "counts never decrease"; }

  Violation after_event(const RegionView& view) override {
    for (const NodeView& node : view.nodes) {
      if (!node.touched) continue;
      for (const decide::CellView& cell : node.cells) {
        Counts& last = seen_[{node.process, cell.generation, cell.sequence}];
        const Counts now{cell.own, cell.siblings, cell.foreign};
        // A batch takes back what the origin granted if another item is denied.
        const Count accepted =
            view.oracle.accepted_by({node.process, cell.generation}, {cell.tuple, cell.sequence});
        if (now.own < std::min(last.own, accepted) || now.siblings < last.siblings ||
            now.foreign < last.foreign) {
          return "a count of window " + std::to_string(cell.sequence) + " decreased on node " +
                 std::to_string(node.node) + ": " + to_string(now) +
                 "; before: " + to_string(last) + "; accepted " + std::to_string(accepted);
        }
        last = now;
      }
    }
    return {};
  }

 private:
  struct Counts {
    Count own = 0;
    Count siblings = 0;
    Count foreign = 0;
  };
  static std::string to_string(const Counts& counts) {
    return "own " + std::to_string(counts.own) + ", siblings " + std::to_string(counts.siblings) +
           ", foreign " + std::to_string(counts.foreign);
  }

  // By process; a tuple created again has another generation, unique in the process.
  std::map<std::tuple<int, uint64_t, int64_t>, Counts> seen_;
};

}  // namespace

std::unique_ptr<RegionChecker> make_counts_never_decrease() {
  return std::make_unique<CountsNeverDecrease>();
}

}  // namespace weir::sim
