// An accept implies that what the node knew and the cost fit the limit; a refusal implies
// the contrary. What it knew is recomputed from its cells, not taken from the verdict. Where a node
// was told to deny or to keep to its share without the origin, it may refuse more, and no less.

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class ConsistentVerdicts final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "honest verdicts"; }

  Violation after_answer(const RegionView& view, const RequestRecord& record) override {
    const Evidence& evidence = record.verdict.evidence;
    const Count used = evidence.own + evidence.siblings + evidence.foreign + evidence.previous;
    const bool fits = used + record.cost <= record.limit;
    // Items of a batch are judged with the costs of those before them in the same tuple.
    if (record.in_batch) return {};
    const bool held =
        record.verdict.basis == Basis::kDegraded &&
        (view.guarantees.on_origin_loss != OnOriginLoss::kLocal || view.guarantees.evicts);
    if (record.verdict.admitted() ? !fits : fits && !held) {
      return std::string(record.verdict.admitted() ? "admitted" : "denied") + " a cost of " +
             std::to_string(record.cost) + " on " + std::to_string(used) + " of " +
             std::to_string(record.limit);
    }
    const Count left = record.limit > used ? record.limit - used : 0;
    const Count expected = left - (record.verdict.admitted() ? record.cost : 0);
    const Count remaining = record.verdict.remaining;
    if (held ? remaining > expected : remaining != expected) {
      return "remaining does not agree with the parts";
    }

    const NodeView& node = view.nodes.at(static_cast<size_t>(record.node));
    Count own_before = view.oracle.accepted_by(record.contributor, record.cell());
    if (record.charged) own_before -= record.cost;
    // Of a future that is no more, its tuple is still there; the origin told what it had before.
    if (had_wrong_clock(view.oracle.process(record.contributor.process), record.cell())) return {};
    // Nor has one that was over before it was answered its counts any more, be it that the clock
    // was set back over a whole window since.
    if (!is_live_at(record.cell(), std::max(view.now.wall, node.latest))) return {};
    if (evidence.own != own_before) return "own in the evidence is not what was accepted";
    for (const limiter::CellView& cell : node.cells) {
      if (cell.tuple != record.tuple || cell.sequence + 1 != record.cell().sequence) continue;
      // The part of the previous window still in view, in exact arithmetic.
      const int64_t width = record.duration.count();
      const int64_t start = record.cell().sequence * width;
      const int64_t at = std::max(record.decided_at().time_since_epoch().count(), start);
      const auto rest = static_cast<Count>(start + width - at);
      const Count previous =
          (cell.own + cell.siblings + cell.foreign) * rest / static_cast<Count>(width);
      const Count weighed = record.algorithm == Algorithm::kSlidingWindow ? previous : 0;
      if (evidence.previous != weighed) {
        return "of the previous window " + std::to_string(evidence.previous) +
               " counts, where it should be " + std::to_string(weighed);
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_consistent_verdicts() {
  return std::make_unique<ConsistentVerdicts>();
}

}  // namespace weir::sim
