// No counts are invented: own is exactly what the node accepted, and own + siblings is at most what
// the region accepted. So a denied request or a failed batch changes no count. What a bridge
// restores after a loss may be counted twice: a process may replay it later. What a step granted to
// a request that did not wait counts for all others. No step grants a relaxed request, so its cost
// is counted exactly once it is admitted.

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class NoInventedCounts final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "no invented counts"; }

  Violation after_event(const RegionView& view) override {
    for (const NodeView& node : view.nodes) {
      if (!node.touched) continue;
      for (const decide::CellView& cell : node.cells) {
        const CellId id{cell.tuple, cell.sequence};
        const Count accepted = view.oracle.accepted_by({node.process, cell.generation}, id);
        const Count unanswered = unanswered_grants(view.oracle, view.origin, id);
        const Count most = accepted + (node.in_flight > 0 ? unanswered : 0);
        // A batch that waited while the clock was set charged a tuple that is gone.
        const bool may_lack =
            had_wrong_clock(view.oracle.process(node.process), id) || !is_live_at(id, node.latest);
        if ((cell.own < accepted && !may_lack) || cell.own > most) {
          return "node " + std::to_string(node.node) + " counts " + std::to_string(cell.own) +
                 " own in window " + std::to_string(cell.sequence) + ", but accepted " +
                 std::to_string(accepted);
        }
        if (cell.own + cell.siblings >
            view.oracle.accepted(id) + view.origin.restored(id) + unanswered) {
          return "node " + std::to_string(node.node) + " knows " + std::to_string(cell.own) +
                 " + " + std::to_string(cell.siblings) + ", but the region accepted " +
                 std::to_string(view.oracle.accepted(id)) + " and steps granted at most " +
                 std::to_string(unanswered) + " more";
        }
        if (cell.tentative != 0) return "a batch left a tentative cost";
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_no_invented_counts() {
  return std::make_unique<NoInventedCounts>();
}

}  // namespace weir::sim
