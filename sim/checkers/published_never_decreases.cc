// The published count of a cell never decreases in a process while the cell is live. Only a full
// read may show that the ledger has less: it lost rows, or a lagging replica answered.

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
      for (const NodeView& node : view.regions[i].nodes) {
        const uint64_t full_reads = node.sync.full_reads;
        for (const global::SharedCell& cell : node.shared) {
          if (had_wrong_clock(view.regions[i].oracle.process(node.process),
                              {cell.tuple, cell.sequence})) {
            continue;
          }
          Seen& seen = seen_[{static_cast<int>(i), node.process, {cell.tuple, cell.sequence}}];
          if (seen.decreased && seen.full_reads == full_reads) return *seen.decreased;
          seen.decreased.reset();
          if (cell.published < seen.published && seen.full_reads == full_reads) {
            // The process reports a full read a little later.
            seen.decreased = "node " + std::to_string(node.node) + " of region " +
                             std::to_string(i) + " took " + std::to_string(seen.published) +
                             " for published in window " + std::to_string(cell.sequence) +
                             ", and now takes " + std::to_string(cell.published);
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
    Violation decreased{};  // in the audit before
  };
  std::map<std::tuple<int, int, CellId>, Seen> seen_;  // region, process
};

}  // namespace

std::unique_ptr<GlobalChecker> make_published_never_decreases() {
  return std::make_unique<PublishedNeverDecreases>();
}

}  // namespace weir::sim
