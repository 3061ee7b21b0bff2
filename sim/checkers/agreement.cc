// After faults have ended, every node agrees on every live cell within two schedules and the
// longest delay, and has nothing left to replay.
//
// A schedule is the longest time between two messages of a node about a cell: until its counts are
// stale and a request comes, then until the replay. In the first schedule, after the deadline of
// the last lost message, each node reads its own component and replays missing counts; in the
// second each node reads the replays of the others. From then on no verdict is degraded, and each
// node knows exactly the accepted counts, less those that are lost. A node that denies by the
// counts it has need not know by how much more the limit is exceeded. Relaxed verdicts know as much
// by then: however far they exceeded a limit before, all nodes know of it.

#include "regional/freshness.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class Agreement final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "agreement"; }

  Violation after_answer(const RegionView& view, const RequestRecord& record) override {
    if (!settled(view, record)) return {};
    if (record.verdict.basis == Basis::kDegraded) {
      // A peek does not get the counts that it waited for if its tuple was replaced meanwhile.
      if (record.cost == 0 && record.has_waited()) return {};
      return "a degraded verdict after faults have ended";
    }
    const Evidence& evidence = record.verdict.evidence;
    if (auto violation = check(view, record, record.cell(), evidence.own + evidence.siblings)) {
      return violation;
    }
    for (const decide::CellView& cell : view.nodes.at(static_cast<size_t>(record.node)).cells) {
      if (cell.tuple != record.tuple) continue;
      const CellId id{cell.tuple, cell.sequence};
      if (!is_live_at(id, view.now.wall)) continue;
      if (auto violation = check(view, record, id, cell.own + cell.siblings)) return violation;
    }
    return {};
  }

  Violation at_end(const RegionView& view) override {
    for (const NodeView& node : view.nodes) {
      const std::string subject = "node " + std::to_string(node.node);
      if (!node.runs()) return subject + " is not running";
      // It may have asked the bridge once more to publish a count, which is no replay that waits.
      if (node.last_replay.waiting != 0 && !may_have_news(view, node)) {
        return subject + " still has counts to replay";
      }
      for (const decide::CellView& cell : node.cells) {
        if (!is_live_at({cell.tuple, cell.sequence}, view.now.wall)) continue;
        if (cell.acked < cell.own)
          return subject + " does not know that all counts are acknowledged";
      }
    }
    return {};
  }

 private:
  // A row of another region that arrives at the end, such as that of a window that has just ended,
  // makes a node tell its origin of it, within the replay interval.
  static bool may_have_news(const RegionView& view, const NodeView& node) {
    return view.has_ledger && node.replay_lag <= view.guarantees.acked_within;
  }
  static bool settled(const RegionView& view, const RequestRecord& record) {
    if (!view.calm_since) return false;
    const Guarantees& guarantees = view.guarantees;
    Nanos delay{0};
    for (const ProcessInfo& process : view.oracle.processes())
      delay = std::max<Nanos>(delay, process.most_delay);
    const Nanos schedule = regional::fresh_for(record.duration, guarantees.max_freshness) +
                           guarantees.acked_within + guarantees.probed_within;
    return record.requested_at.mono - *view.calm_since >
           guarantees.read_deadline + 2 * (schedule + 2 * delay);
  }

  // Some nodes know counts of ended processes that the origin has lost; others do not.
  static Violation check(const RegionView& view, const RequestRecord& record, const CellId& cell,
                         Count known) {
    if (had_wrong_clock(view.oracle.process(record.contributor.process), cell)) return {};
    if (any_had_wrong_clock(view.oracle, cell)) return {};
    const MissingCounts missing = missing_counts(view, cell);
    const Count most = view.oracle.accepted(cell) - missing.died_unacked;
    const bool enough = known + missing.lost_with_origin >= most || !record.verdict.admitted();
    // The ledger keeps counts that ended processes published.
    const Count can_be = (view.has_ledger ? view.oracle.accepted(cell) : most) +
                         view.origin.restored(cell) +
                         unanswered_grants(view.oracle, view.origin, cell);
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
