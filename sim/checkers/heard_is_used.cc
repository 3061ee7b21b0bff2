// What a process hears of other regions it uses, at once and for as long as it matters: of the
// window that it is in and the one before, also of rows that came before its own clock had reached
// their window. Reading them again later must not be what it takes.

#include <map>
#include <tuple>

#include "sim/checkers/makers.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

class ReceivedIsUsed final : public FleetChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "heard is used"; }

  Fault at_audit(const FleetView& all) override {
    for (size_t i = 0; i < all.regions.size(); ++i) {
      for (const NodeView& node : all.regions[i].nodes) {
        if (auto fault = check(all, static_cast<int>(i), node)) return fault;
      }
    }
    return {};
  }

 private:
  using Place = std::tuple<int, int, CellId>;  // region, life

  Fault check(const FleetView& all, int region, const NodeView& node) {
    // What it had no room for it may use all the same, once there is.
    if (!node.runs() || !node.received || node.sync.no_room > 0) return {};
    for (const decide::CellView& cell : node.cells) {
      const CellId id{cell.tuple, cell.sequence};
      // A clock that was set back had taken it to be over.
      if (!matters_at(id, node.latest)) continue;
      if (went_astray(all.regions[static_cast<size_t>(region)].truth.life(node.life), id)) continue;
      Count received = 0;
      for (size_t i = 0; i < all.regions.size(); ++i) {
        if (static_cast<int>(i) == region) continue;
        received += node.received->row({id, all.regions[i].name}).count;
      }
      const Place place{region, node.life, id};
      if (cell.foreign >= received) {
        unused_.erase(place);
        continue;
      }
      const auto [found, is_new] = unused_.emplace(place, Unused{all.now.mono, received});
      // By now it may be something newer that is not used yet.
      if (cell.foreign >= found->second.received) found->second = {all.now.mono, received};
      if (all.now.mono - found->second.since <= Received::kTakesIn) continue;
      return "node " + std::to_string(node.node) + " of region " + std::to_string(region) +
             " has heard " + std::to_string(received) + " of others in window " +
             std::to_string(cell.sequence) + ", but goes by " + std::to_string(cell.foreign);
    }
    return {};
  }

  struct Unused {
    MonoTime since{};
    Count received = 0;
  };
  std::map<Place, Unused> unused_;
};

}  // namespace

std::unique_ptr<FleetChecker> make_received_is_used() {
  return std::make_unique<ReceivedIsUsed>();
}

}  // namespace weir::sim
