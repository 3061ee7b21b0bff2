// What a process takes to be published the ledger has committed, be it lost since. Only a row that
// the ledger refuses for what it is counts as written all the same, lest it be sent for ever.

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class DurabilityOrder final : public FleetChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "durability order"; }

  Fault at_audit(const FleetView& all) override {
    for (const RegionView& region : all.regions) {
      for (const NodeView& node : region.nodes) {
        for (const global::SharedCell& cell : node.shared) {
          if (all.blamed.count(cell.tuple) > 0) continue;
          const Count ever = all.ledger.ever({{cell.tuple, cell.sequence}, region.name});
          if (cell.published <= ever) continue;
          return "node " + std::to_string(node.node) + " of " + region.name + " takes " +
                 std::to_string(cell.published) + " to be written in window " +
                 std::to_string(cell.sequence) + ", but the ledger never had more than " +
                 std::to_string(ever);
        }
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<FleetChecker> make_durability_order() {
  return std::make_unique<DurabilityOrder>();
}

}  // namespace weir::sim
