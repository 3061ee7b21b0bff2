// An accept implies that what the node knew and the cost fit the limit; a refusal implies
// the contrary. What it knew is recomputed from its cells, not taken from the verdict. Where a node
// was told to deny or to keep to its share without the origin, it may refuse more, and no less.

#include "sim/checkers/makers.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

class HonestVerdicts final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "honest verdicts"; }

  Fault after_answer(const WorldView& world, const Answered& answered) override {
    const Evidence& evidence = answered.verdict.evidence;
    const Count used = evidence.own + evidence.siblings + evidence.foreign + evidence.previous;
    const bool fits = used + answered.cost <= answered.limit;
    // Items of a batch are judged with the costs of those before them in the same tuple.
    if (answered.in_batch) return {};
    const bool held =
        answered.verdict.basis == Basis::kDegraded &&
        (world.promises.on_origin_loss != OnOriginLoss::kLocal || world.promises.forgets);
    if (answered.verdict.admitted() ? !fits : fits && !held) {
      return std::string(answered.verdict.admitted() ? "admitted" : "denied") + " a cost of " +
             std::to_string(answered.cost) + " on " + std::to_string(used) + " of " +
             std::to_string(answered.limit);
    }
    const Count left = answered.limit > used ? answered.limit - used : 0;
    const Count expected = left - (answered.verdict.admitted() ? answered.cost : 0);
    const Count remaining = answered.verdict.remaining;
    if (held ? remaining > expected : remaining != expected) {
      return "remaining does not agree with the parts";
    }

    const NodeView& node = world.nodes.at(static_cast<size_t>(answered.node));
    Count own_before = world.truth.accepted_by(answered.account, answered.cell());
    if (answered.charged) own_before -= answered.cost;
    // Of a future that is no more, its tuple is still there; the origin told what it had before.
    if (went_astray(world.truth.life(answered.account.life), answered.cell())) return {};
    // Nor has one that was over before it was answered its counts any more, be it that the clock
    // was set back over a whole window since.
    if (!matters_at(answered.cell(), std::max(world.now.wall, node.latest))) return {};
    if (evidence.own != own_before) return "own in the evidence is not what was accepted";
    for (const decide::CellView& cell : node.cells) {
      if (cell.tuple != answered.tuple || cell.sequence + 1 != answered.cell().sequence) continue;
      // The part of the previous window still in view, in exact arithmetic.
      const int64_t width = answered.duration.count();
      const int64_t start = answered.cell().sequence * width;
      const int64_t at = std::max(answered.decided().time_since_epoch().count(), start);
      const auto rest = static_cast<Count>(start + width - at);
      const Count previous =
          (cell.own + cell.siblings + cell.foreign) * rest / static_cast<Count>(width);
      const Count weighed = answered.algorithm == Algorithm::kSlidingWindow ? previous : 0;
      if (evidence.previous != weighed) {
        return "of the previous window " + std::to_string(evidence.previous) +
               " counts, where it should be " + std::to_string(weighed);
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Checker> make_honest_verdicts() {
  return std::make_unique<HonestVerdicts>();
}

}  // namespace weir::sim
