// The ledger has committed everything that a region takes for published, even if it lost the row
// since: the own count and lease at the origin, and the published count of each process. Only a row
// that the ledger rejects as invalid counts as published, too, so that it is not sent for ever.

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class DurabilityOrder final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "durability order"; }

  Violation at_audit(const GlobalView& view) override {
    for (const RegionState& region : view.regions) {
      if (auto violation = check_origin(view, region)) return violation;
      for (const NodeView& node : region.nodes) {
        if (auto violation = check_node(view, region, node)) return violation;
      }
    }
    return {};
  }

 private:
  static Violation check_origin(const GlobalView& view, const RegionState& region) {
    Violation violation;
    region.origin.bridge().for_each_tuple([&](const std::string& tuple, const RegionCounts& known) {
      if (view.rejected.count(tuple) > 0) return;
      for (const RegionCount& own : known.counts) {
        if (own.region != region.name) continue;
        const Count committed = view.ledger.max_committed({{tuple, own.sequence}, region.name});
        if (own.count > committed) {
          violation = "the origin of " + region.name + " has " + std::to_string(own.count) +
                      " as published in window " + std::to_string(own.sequence) +
                      ", but the ledger never had more than " + std::to_string(committed);
        }
        if (own.leased_until > view.history.leased_until(tuple, region.name, view.now.mono)) {
          violation = "the origin of " + region.name + " has a lease that the ledger never had";
        }
      }
    });
    return violation;
  }

  static Violation check_node(const GlobalView& view, const RegionState& region,
                              const NodeView& node) {
    for (const global::SharedCell& cell : node.shared) {
      if (view.rejected.count(cell.tuple) > 0) continue;
      const Count committed = view.ledger.max_committed({{cell.tuple, cell.sequence}, region.name});
      if (cell.published <= committed) continue;
      return "node " + std::to_string(node.node) + " of " + region.name + " takes " +
             std::to_string(cell.published) + " for published in window " +
             std::to_string(cell.sequence) + ", but the ledger never had more than " +
             std::to_string(committed);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<GlobalChecker> make_durability_order() {
  return std::make_unique<DurabilityOrder>();
}

}  // namespace weir::sim
