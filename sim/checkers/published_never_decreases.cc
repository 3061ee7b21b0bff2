// What a process takes to be published of a cell never falls while the cell lives. Only a read of
// everything may show that the ledger has less: it lost rows, or a replica that lags was read.

#include <map>
#include <tuple>

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class PublishedNeverDecreases final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "published never falls"; }

  Violation at_audit(const GlobalView& view) override {
    for (size_t i = 0; i < view.regions.size(); ++i) {
      for (const NodeView& node : view.regions[i].nodes) {
        const uint64_t full_reads = node.sync.full_reads;
        for (const limiter::SharedCell& cell : node.shared) {
          if (had_wrong_clock(view.regions[i].oracle.process(node.process),
                              {cell.tuple, cell.sequence})) {
            continue;
          }
          Seen& seen = seen_[{static_cast<int>(i), node.process, {cell.tuple, cell.sequence}}];
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
    Violation fell{};  // since the audit before
  };
  std::map<std::tuple<int, int, CellId>, Seen> seen_;  // region, life
};

}  // namespace

std::unique_ptr<GlobalChecker> make_published_never_decreases() {
  return std::make_unique<PublishedNeverDecreases>();
}

}  // namespace weir::sim
