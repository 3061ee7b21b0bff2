// The ledger has committed every count that a process takes for published, even if it lost the row
// since. Only a row that the ledger rejects as invalid counts as published, too, so that it is not
// sent for ever.

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class DurabilityOrder final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "durability order"; }

  Violation at_audit(const GlobalView& view) override {
    for (const RegionState& region : view.regions) {
      for (const NodeView& node : region.nodes) {
        for (const global::SharedCell& cell : node.shared) {
          if (view.rejected.count(cell.tuple) > 0) continue;
          const Count max_committed =
              view.ledger.max_committed({{cell.tuple, cell.sequence}, region.name});
          if (cell.published <= max_committed) continue;
          return "node " + std::to_string(node.node) + " of " + region.name + " takes " +
                 std::to_string(cell.published) + " for published in window " +
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
