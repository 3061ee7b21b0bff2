// An admission implies that the counts the node knew plus the cost fit the limit; a denial implies
// the contrary. The checker computes the counts from the node's cells, not from the verdict. A node
// without an answer of the origin has its allowance only, or what the loss policy leaves: it may
// deny more, and not less. The same holds for relaxed requests, but the origin never denies one: a
// denial counts nothing that steps granted to requests that did not wait.

#include <algorithm>

#include "base/wide.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class ConsistentVerdicts final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "consistent verdicts"; }

  Violation after_answer(const RegionView& view, const RequestRecord& record) override {
    const Evidence& evidence = record.verdict.evidence;
    const Count used = evidence.own + evidence.siblings + evidence.foreign + evidence.previous;
    const bool fits = used + record.cost <= record.limit;
    // Items of a batch are decided with the costs of earlier items of the same tuple.
    if (record.in_batch) return {};
    const bool restricted = record.verdict.basis == Basis::kDegraded;
    if (record.verdict.admitted() ? !fits : fits && !restricted) {
      return std::string(record.verdict.admitted() ? "admitted" : "denied") + " a cost of " +
             std::to_string(record.cost) + " with " + std::to_string(used) + " used of " +
             std::to_string(record.limit);
    }
    const Count left = record.limit > used ? record.limit - used : 0;
    const Count expected = left - (record.verdict.admitted() ? record.cost : 0);
    const Count remaining = record.verdict.remaining;
    if (restricted ? remaining > expected : remaining != expected) {
      return "remaining does not agree with the evidence";
    }

    const NodeView& node = view.nodes.at(static_cast<size_t>(record.node));
    Count own_before = view.oracle.accepted_by(record.contributor, record.cell());
    if (record.charged) own_before -= record.cost;
    // The tuple still has the windows of a wrong clock; the origin reported its earlier counts.
    if (had_wrong_clock(view.oracle.process(record.contributor.process), record.cell())) return {};
    // A cell that was over before the answer has lost its counts; its clock may have been set back
    // over a whole window since.
    if (!is_live_at(record.cell(), std::max(view.now.wall, node.latest))) return {};
    // One step may charge several requests, which are answered in any order, and a batch holds a
    // cost while it waits for its other items.
    const bool together =
        record.has_waited() || node.in_flight > 0 || record.verdict.basis == Basis::kRefreshed;
    // So are requests of one instant.
    const Count others_now = accepted_now(view, record) - (record.charged ? record.cost : 0);
    const Count earlier = own_before - std::min(own_before, others_now);
    if (!together && (evidence.own > own_before || evidence.own < earlier)) {
      return "own in the evidence differs from the accepted count";
    }
    // Since its step, others may have counted, and a batch may have taken back its costs.
    if (record.has_waited()) return {};
    for (const decide::CellView& cell : node.cells) {
      if (cell.tuple != record.tuple || cell.sequence + 1 != record.cell().sequence) continue;
      // The weighted part of the previous window, in exact arithmetic.
      const int64_t width = record.duration.count();
      const int64_t start = record.cell().sequence * width;
      const int64_t at = std::max(record.decided_at().time_since_epoch().count(), start);
      const auto rest = static_cast<Count>(start + width - at);
      const auto weigh = [&](Count count) {
        const bool sliding = record.algorithm == Algorithm::kSlidingWindow;
        return sliding ? count * rest / static_cast<Count>(width) : Count{0};
      };
      const Count known = cell.own + cell.siblings + cell.foreign;
      const Count weighed = weigh(known);
      // A denial by the origin may also count what it granted to requests that did not wait. While
      // the process knows too little of other regions, the basis of such a denial is degraded.
      const bool by_origin = record.verdict.basis == Basis::kRefreshed ||
                             (record.verdict.basis == Basis::kDegraded && view.has_ledger);
      const bool counts_grants = by_origin && !record.relaxed && !record.verdict.admitted();
      const Count most = counts_grants ? weigh(known + unused_grants(view, node, cell)) : weighed;
      if (evidence.previous != weighed && evidence.previous != most) {
        return "the verdict counts " + std::to_string(evidence.previous) +
               " of the previous window, the correct count is " + std::to_string(weighed);
      }
    }
    return {};
  }

 private:
  static Count unused_grants(const RegionView& view, const NodeView& node,
                             const decide::CellView& cell) {
    const auto components = view.origin.components({cell.tuple, cell.sequence});
    const auto mine =
        components.find({.incarnation = node.incarnation, .generation = cell.generation});
    return mine == components.end() ? 0 : base::saturating_sub(mine->second, cell.own);
  }

  // The cost that the process has accepted in the cell at the instant of the answer.
  static Count accepted_now(const RegionView& view, const RequestRecord& record) {
    const std::vector<Accept>& accepts = view.oracle.accepts(record.cell());
    Count sum = 0;
    for (auto it = accepts.rbegin(); it != accepts.rend(); ++it) {
      if (it->when < record.answered_at.mono) break;
      if (it->contributor == record.contributor) sum += it->cost;
    }
    return sum;
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_consistent_verdicts() {
  return std::make_unique<ConsistentVerdicts>();
}

}  // namespace weir::sim
