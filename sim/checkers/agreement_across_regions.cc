// Rows are imported. Without faults, every node that holds the tuple uses a row two import
// intervals after its commit at the latest, messages included. After faults have ended all nodes
// agree: each knows the rows of the other regions in the ledger, and no more than was ever
// committed; and the ledger has every row that a process takes for published, even if it had lost
// the row. A row younger than that may be unknown at the end, and so may a row of a window that has
// just begun on the node: it is used at the next iteration.

#include <algorithm>

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class AgreementAcrossRegions final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "agreement across regions"; }

  Violation at_audit(const GlobalView& view) override {
    if (view.disrupted_since || view.failed_over) return {};
    return check_nodes(view, [&](const RowId& key) { return received_by_now(view, key); });
  }

  Violation at_end(const GlobalView& view) override {
    // The last rows, for example of a lease that ends, may still be in flight.
    auto violation = check_nodes(view, [&](const RowId& key) {
      return std::min(view.ledger.current(key), received_by_now(view, key));
    });
    if (violation) return violation;
    for (const RegionState& region : view.regions) {
      for (const NodeView& node : region.nodes) {
        for (const global::SharedCell& cell : node.shared) {
          const CellId id{cell.tuple, cell.sequence};
          if (!is_live_at(id, view.now.wall) || view.rejected.count(cell.tuple) > 0) continue;
          const Count has = view.ledger.current({id, region.name});
          if (cell.published <= has) continue;
          return "node " + std::to_string(node.node) + " of " + region.name + " takes " +
                 std::to_string(cell.published) + " for published, but the ledger has " +
                 std::to_string(has);
        }
      }
    }
    return {};
  }

 private:
  // The count that was committed so long ago that every node has read it.
  static Count received_by_now(const GlobalView& view, const RowId& key) {
    return view.history.count_at(key, view.now.mono - view.delays.import - Nanos(1));
  }

  template <typename OriginWrite>
  static Violation check_nodes(const GlobalView& view, const OriginWrite& written) {
    for (const RegionState& region : view.regions) {
      for (const NodeView& node : region.nodes) {
        if (!node.runs() || node.sync.no_room > 0) continue;
        for (const decide::CellView& cell : node.cells) {
          const CellId id{cell.tuple, cell.sequence};
          // Also by the node's own clock, which may be ahead.
          if (!is_live_at(id, std::max(view.now.wall, node.latest))) continue;
          if (had_wrong_clock(region.oracle.process(node.process), id)) continue;
          if (node.now.wall - WallTime(id.sequence * duration_of(id)) <= ImportLog::kMergeDelay)
            continue;
          Count others = 0;
          for (const RegionState& other : view.regions) {
            if (other.name != region.name) others += written({id, other.name});
          }
          if (cell.foreign >= others) continue;
          return "node " + std::to_string(node.node) + " of " + region.name + " has imported " +
                 std::to_string(cell.foreign) + " of " + std::to_string(others) +
                 " that other regions published in window " + std::to_string(cell.sequence);
        }
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<GlobalChecker> make_agreement_across_regions() {
  return std::make_unique<AgreementAcrossRegions>();
}

}  // namespace weir::sim
