// Nobody invents consumption across regions. Rows of a region are written by its own processes
// and hold at most what was truly accepted there, so nothing heard from others; and what a node
// takes others to have counted is at most what they once wrote.

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class NobodyInventsAbroad final : public FleetChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "nobody invents abroad"; }

  Fault after_commit(const FleetView& all, const Committed& committed) override {
    const Truth& truth = all.regions.at(static_cast<size_t>(committed.by.region)).truth;
    for (const LedgerRow& row : committed.news.rows) {
      if (row.region != committed.by.name) return committed.by.name + " wrote a row of another";
      const Count accepted = truth.accepted(cell_of(row));
      if (row.count <= accepted) continue;
      return committed.by.name + " wrote " + std::to_string(row.count) + ", but accepted " +
             std::to_string(accepted) + " in window " + std::to_string(row.sequence);
    }
    for (const LedgerPresence& presence : committed.news.presences) {
      if (presence.region != committed.by.name) return "a presence in another's name";
    }
    return {};
  }

  Fault after_event(const FleetView& all) override {
    for (const RegionView& region : all.regions) {
      for (const NodeView& node : region.nodes) {
        if (!node.touched) continue;
        for (const decide::CellView& cell : node.cells) {
          if (cell.foreign == 0) continue;
          const Count written = written_elsewhere(all, region, {cell.tuple, cell.sequence});
          if (cell.foreign <= written) continue;
          return "node " + std::to_string(node.node) + " of " + region.name +
                 " takes others to have " + std::to_string(cell.foreign) + " in window " +
                 std::to_string(cell.sequence) + ", but they wrote " + std::to_string(written);
        }
      }
    }
    return {};
  }

 private:
  static Count written_elsewhere(const FleetView& all, const RegionView& here, const CellId& cell) {
    Count sum = 0;
    for (const RegionView& region : all.regions) {
      if (region.name != here.name) sum += all.ledger.ever({cell, region.name});
    }
    return sum;
  }
};

}  // namespace

std::unique_ptr<FleetChecker> make_nobody_invents_abroad() {
  return std::make_unique<NobodyInventsAbroad>();
}

}  // namespace weir::sim
