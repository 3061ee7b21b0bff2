// Once nothing goes wrong any more, every node agrees on every live cell within two
// schedules and the longest delay, and has nothing left to tell.
//
// A schedule is what may pass from one message of a node about a cell to the next: until
// what it knows is stale and someone asks, then until it is told. The first schedule, after
// the deadline of what was lost last, has each node hear what the origin has of its own and
// tell what is missing; with the second each hears what the others told. From then on no
// verdict is degraded and each knows exactly what was accepted, less what died. Only one
// that refuses already by what it knows need not hear by how much more.

#include "limiter/freshness.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class Agreement final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "agreement"; }

  Violation after_answer(const RegionView& view, const RequestRecord& record) override {
    if (!settled(view, record)) return {};
    if (record.verdict.basis == Basis::kDegraded) return "a degraded verdict after calm";
    const Evidence& evidence = record.verdict.evidence;
    if (auto violation = check(view, record, record.cell(), evidence.own + evidence.siblings)) {
      return violation;
    }
    for (const limiter::CellView& cell : view.nodes.at(static_cast<size_t>(record.node)).cells) {
      if (cell.tuple != record.tuple) continue;
      const CellId id{cell.tuple, cell.sequence};
      if (!is_live_at(id, view.now.wall)) continue;
      if (auto violation = check(view, record, id, cell.own + cell.siblings)) return violation;
    }
    return {};
  }

  Violation at_end(const RegionView& view) override {
    for (const NodeView& node : view.nodes) {
      const std::string who = "node " + std::to_string(node.node);
      if (!node.runs()) return who + " does not run";
      if (node.last_replay.done + node.last_replay.waiting != 0) {
        return who + " still has something to tell";
      }
      for (const limiter::CellView& cell : node.cells) {
        if (!is_live_at({cell.tuple, cell.sequence}, view.now.wall)) continue;
        if (cell.acked != cell.own) return who + " does not know that all was told";
      }
    }
    return {};
  }

 private:
  static bool settled(const RegionView& view, const RequestRecord& record) {
    if (!view.calm_since) return false;
    const Guarantees& guarantees = view.guarantees;
    Nanos delay{0};
    for (const ProcessInfo& process : view.oracle.processes())
      delay = std::max<Nanos>(delay, process.most_delay);
    const Nanos schedule = limiter::fresh_for(record.duration, guarantees.max_freshness) +
                           guarantees.acked_within + guarantees.probed_within;
    return record.requested_at.mono - *view.calm_since >
           guarantees.read_deadline + 2 * (schedule + 2 * delay);
  }

  // What the dead had told and the origin lost, some nodes know and others do not.
  static Violation check(const RegionView& view, const RequestRecord& record, const CellId& cell,
                         Count known) {
    if (had_wrong_clock(view.oracle.process(record.contributor.process), cell)) return {};
    if (any_had_wrong_clock(view.oracle, cell)) return {};
    const MissingCounts missing = missing_counts(view, cell);
    const Count most = view.oracle.accepted(cell) - missing.died_unacked;
    const bool enough = known + missing.lost_with_origin >= most || !record.verdict.admitted();
    // What the dead had told the ledger is known through it.
    const Count can_be = view.has_ledger ? view.oracle.accepted(cell) : most;
    if (known <= can_be && enough) return {};
    return "node " + std::to_string(record.node) + " knows " + std::to_string(known) + " of " +
           std::to_string(most) + " in window " + std::to_string(cell.sequence);
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_agreement() {
  return std::make_unique<Agreement>();
}

}  // namespace weir::sim
