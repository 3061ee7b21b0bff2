// What was written is heard. Where nothing goes wrong, every node that holds the tuple uses a row
// two import intervals after its commit at the latest, messages included. After calm all agree:
// each knows what the ledger has of the others, no more than was ever written, and what a process
// takes to be written is there, be it that the ledger had lost it. A row that is younger than that
// may be unknown at the end, too, and so may one of a window that has only just begun here: rows
// that came before are used at the next turn.

#include <algorithm>

#include "sim/checkers/makers.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

class AgreementAbroad final : public FleetChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "agreement abroad"; }

  Fault at_audit(const FleetView& all) override {
    if (all.troubled_since || all.failed_over) return {};
    return check_nodes(all, [&](const RowPlace& place) { return received_by_now(all, place); });
  }

  Fault at_end(const FleetView& all) override {
    // What was written last, at the end of a lease say, may still be on its way.
    auto fault = check_nodes(all, [&](const RowPlace& place) {
      return std::min(all.ledger.now_has(place), received_by_now(all, place));
    });
    if (fault) return fault;
    for (const RegionView& region : all.regions) {
      for (const NodeView& node : region.nodes) {
        for (const global::SharedCell& cell : node.shared) {
          const CellId id{cell.tuple, cell.sequence};
          if (!matters_at(id, all.now.wall) || all.blamed.count(cell.tuple) > 0) continue;
          const Count has = all.ledger.now_has({id, region.name});
          if (cell.published <= has) continue;
          return "node " + std::to_string(node.node) + " of " + region.name + " takes " +
                 std::to_string(cell.published) + " to be written, but the ledger has " +
                 std::to_string(has);
        }
      }
    }
    return {};
  }

 private:
  // What was written so long ago that every node has read it.
  static Count received_by_now(const FleetView& all, const RowPlace& place) {
    return all.history.had(place, all.now.mono - all.delays.import - Nanos(1));
  }

  template <typename Written>
  static Fault check_nodes(const FleetView& all, const Written& written) {
    for (const RegionView& region : all.regions) {
      for (const NodeView& node : region.nodes) {
        if (!node.runs() || node.sync.no_room > 0) continue;
        for (const decide::CellView& cell : node.cells) {
          const CellId id{cell.tuple, cell.sequence};
          // By its own clock, too, which may be ahead.
          if (!matters_at(id, std::max(all.now.wall, node.latest))) continue;
          if (went_astray(region.truth.life(node.life), id)) continue;
          if (node.now.wall - WallTime(id.sequence * duration_of(id)) <= Received::kTakesIn)
            continue;
          Count others = 0;
          for (const RegionView& other : all.regions) {
            if (other.name != region.name) others += written({id, other.name});
          }
          if (cell.foreign >= others) continue;
          return "node " + std::to_string(node.node) + " of " + region.name + " has heard " +
                 std::to_string(cell.foreign) + " of " + std::to_string(others) +
                 " that others wrote in window " + std::to_string(cell.sequence);
        }
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<FleetChecker> make_agreement_abroad() {
  return std::make_unique<AgreementAbroad>();
}

}  // namespace weir::sim
