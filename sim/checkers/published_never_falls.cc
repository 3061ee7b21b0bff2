// What a process takes to be published of a cell never falls while the cell lives. Only a read of
// everything may show that the ledger has less: it lost rows, or a replica that lags was read.

#include <map>
#include <tuple>

#include "sim/checkers/makers.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

class PublishedNeverFalls final : public FleetChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "published never falls"; }

  Fault at_audit(const FleetView& all) override {
    for (size_t i = 0; i < all.regions.size(); ++i) {
      for (const NodeView& node : all.regions[i].nodes) {
        const uint64_t full_reads = node.sync.full_reads;
        for (const global::SharedCell& cell : node.shared) {
          if (went_astray(all.regions[i].truth.life(node.life), {cell.tuple, cell.sequence})) {
            continue;
          }
          Seen& seen = seen_[{static_cast<int>(i), node.life, {cell.tuple, cell.sequence}}];
          if (seen.fell && seen.full_reads == full_reads) return *seen.fell;
          seen.fell.reset();
          if (cell.published < seen.published && seen.full_reads == full_reads) {
            // That everything was read is told a little later.
            seen.fell = "node " + std::to_string(node.node) + " of region " + std::to_string(i) +
                        " took " + std::to_string(seen.published) + " to be written in window " +
                        std::to_string(cell.sequence) + ", and now " +
                        std::to_string(cell.published);
          }
          seen.published = cell.published;
          seen.full_reads = full_reads;
        }
      }
    }
    return {};
  }

 private:
  struct Seen {
    Count published = 0;
    uint64_t full_reads = 0;
    Fault fell{};  // since the audit before
  };
  std::map<std::tuple<int, int, CellId>, Seen> seen_;  // region, life
};

}  // namespace

std::unique_ptr<FleetChecker> make_published_never_falls() {
  return std::make_unique<PublishedNeverFalls>();
}

}  // namespace weir::sim
