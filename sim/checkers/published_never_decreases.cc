// Counts of the ledger never decrease where a region knows them: those of each region at the
// origin, with their leases, while these matter and unless the origin lost data; and the published
// count of a cell in a process while the cell is live, unless the origin or the ledger lost data. A
// window that the origin has dropped after its end may be added again with an older count.

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class PublishedNeverDecreases final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "published never decreases"; }

  Violation at_audit(const GlobalView& view) override {
    for (size_t i = 0; i < view.regions.size(); ++i) {
      const RegionState& region = view.regions[i];
      if (auto violation = check_origin(view, static_cast<int>(i), region)) return violation;
      // A process that is its own bridge begins anew with the store in its memory.
      if (view.disrupted_since || view.failed_over) {
        std::erase_if(published_, [&](const auto& each) {
          return std::get<0>(each.first) == static_cast<int>(i);
        });
        continue;
      }
      for (const NodeView& node : region.nodes) {
        if (auto violation = check_node(static_cast<int>(i), region, node)) return violation;
      }
    }
    return {};
  }

 private:
  using OriginRow = std::tuple<int, std::string, std::string, int64_t>;  // tuple, region, sequence
  struct Known {
    Count count = 0;
    WallTime leased_until{};
  };

  Violation check_origin(const GlobalView& view, int index, const RegionState& region) {
    const BridgeData& bridge = region.origin.bridge();
    if (std::exchange(lost_at_[index], bridge.lost_at()) != bridge.lost_at()) {
      std::erase_if(known_, [&](const auto& each) { return std::get<0>(each.first) == index; });
    }
    Violation violation;
    bridge.for_each_tuple([&](const std::string& tuple, const RegionCounts& counts) {
      for (const RegionCount& each : counts.counts) {
        Known& known = known_[{index, tuple, each.region, each.sequence}];
        const bool lower =
            each.count < known.count && is_live_at({tuple, each.sequence}, view.now.wall);
        // A lease also matters in the window after its end.
        const bool shorter = each.leased_until < known.leased_until &&
                             view.now.wall < known.leased_until + duration_of({tuple, 0});
        if (lower || shorter) {
          violation = "the origin of " + region.name + " had " + std::to_string(known.count) +
                      " of " + each.region + " in window " + std::to_string(each.sequence) +
                      ", and now has " + std::to_string(each.count) + ", or a shorter lease";
        }
        known = {.count = each.count, .leased_until = each.leased_until};
      }
    });
    return violation;
  }

  Violation check_node(int index, const RegionState& region, const NodeView& node) {
    for (const global::SharedCell& cell : node.shared) {
      const CellId id{cell.tuple, cell.sequence};
      if (had_wrong_clock(region.oracle.process(node.process), id)) continue;
      // A tuple that was evicted and created again is read again.
      Count& published = published_[{index, node.process, node.generation_of(cell.tuple), id}];
      if (cell.published < published) {
        return "node " + std::to_string(node.node) + " of " + region.name + " took " +
               std::to_string(published) + " for published in window " +
               std::to_string(cell.sequence) + ", and now takes " + std::to_string(cell.published);
      }
      published = cell.published;
    }
    return {};
  }

  std::map<OriginRow, Known> known_;
  std::map<int, std::optional<MonoTime>> lost_at_;
  std::map<std::tuple<int, int, uint64_t, CellId>, Count>
      published_;  // region, process, generation
};

}  // namespace

std::unique_ptr<GlobalChecker> make_published_never_decreases() {
  return std::make_unique<PublishedNeverDecreases>();
}

}  // namespace weir::sim
