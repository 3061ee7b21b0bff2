// No counts are invented across regions. Only processes of a region write its rows, and a row holds
// at most what the region accepted, so no imported counts, but perhaps twice what a bridge restored
// after a loss. A lease ends with a window. The counts
// and leases of other regions at an origin, and the foreign count of a node, are at most what those
// regions ever committed.

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class NoInventedForeignCounts final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "no invented foreign counts"; }

  Violation after_commit(const GlobalView& view, const Committed& committed) override {
    const RegionState& region = view.regions.at(static_cast<size_t>(committed.by.region));
    for (const LedgerRow& row : committed.rows) {
      if (row.region != committed.by.name)
        return committed.by.name + " wrote a row of another region";
      if (row.leased_until.time_since_epoch() % row.key.duration != Millis(0))
        return committed.by.name + " wrote a lease that ends within a window";
      const Count accepted = region.oracle.accepted(cell_of(row));
      const Count beyond = region.origin.restored(cell_of(row)) +
                           unanswered_grants(region.oracle, region.origin, cell_of(row));
      if (row.count <= accepted + beyond) continue;
      return committed.by.name + " wrote " + std::to_string(row.count) + ", but accepted " +
             std::to_string(accepted) + " in window " + std::to_string(row.sequence);
    }
    return {};
  }

  Violation at_audit(const GlobalView& view) override {
    Violation violation;
    for (const RegionState& region : view.regions) {
      region.origin.bridge().for_each_tuple([&](const std::string& tuple,
                                                const RegionCounts& known) {
        for (const RegionCount& foreign : known.counts) {
          if (foreign.region == region.name) continue;
          const RowId id{{tuple, foreign.sequence}, foreign.region};
          const WallTime leased = view.history.leased_until(tuple, foreign.region, view.now.mono);
          if (foreign.count <= view.ledger.max_committed(id) && foreign.leased_until <= leased) {
            continue;
          }
          violation = "the origin of " + region.name + " has " + std::to_string(foreign.count) +
                      " of " + foreign.region + " in window " + std::to_string(foreign.sequence) +
                      ", or a lease, that was never committed";
        }
      });
    }
    return violation;
  }

  Violation after_event(const GlobalView& view) override {
    for (const RegionState& region : view.regions) {
      for (const NodeView& node : region.nodes) {
        if (!node.touched) continue;
        for (const decide::CellView& cell : node.cells) {
          if (cell.foreign == 0) continue;
          const Count written = written_elsewhere(view, region, {cell.tuple, cell.sequence});
          if (cell.foreign <= written) continue;
          return "node " + std::to_string(node.node) + " of " + region.name +
                 " has foreign counts of " + std::to_string(cell.foreign) + " in window " +
                 std::to_string(cell.sequence) + ", but other regions committed " +
                 std::to_string(written);
        }
      }
    }
    return {};
  }

 private:
  static Count written_elsewhere(const GlobalView& view, const RegionState& here,
                                 const CellId& cell) {
    Count sum = 0;
    for (const RegionState& region : view.regions) {
      if (region.name != here.name) sum += view.ledger.max_committed({cell, region.name});
    }
    return sum;
  }
};

}  // namespace

std::unique_ptr<GlobalChecker> make_no_invented_foreign_counts() {
  return std::make_unique<NoInventedForeignCounts>();
}

}  // namespace weir::sim
