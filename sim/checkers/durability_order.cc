// What a process takes to be published the ledger has committed, be it lost since. Only a row that
// the ledger refuses for what it is counts as written all the same, lest it be sent for ever.

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class DurabilityOrder final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "durability order"; }

  Violation at_audit(const GlobalView& view) override {
    for (const RegionState& region : view.regions) {
      for (const NodeView& node : region.nodes) {
        for (const limiter::SharedCell& cell : node.shared) {
          if (view.rejected.count(cell.tuple) > 0) continue;
          const Count max_committed =
              view.ledger.max_committed({{cell.tuple, cell.sequence}, region.name});
          if (cell.published <= max_committed) continue;
          return "node " + std::to_string(node.node) + " of " + region.name + " takes " +
                 std::to_string(cell.published) + " to be written in window " +
                 std::to_string(cell.sequence) + ", but the ledger never had more than " +
                 std::to_string(max_committed);
        }
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<GlobalChecker> make_durability_order() {
  return std::make_unique<DurabilityOrder>();
}

}  // namespace weir::sim
