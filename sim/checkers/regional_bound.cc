// The regional bound: at each accept, the region has accepted in the cell at most the limit plus
// the counts in flight between its nodes.
//
// A node accepts only what fits the limit together with the counts it knows (consistent verdicts),
// so the region exceeds a limit by no more than the counts of others that the last node to accept
// did not know. If its verdict is not degraded, the node has read the origin at most one freshness
// interval before (or its read deadline, if the request waited for a read; a read that it joined
// had begun by then). So each unknown accept of another node was missing at the origin at some time
// since. Only the excuses of missing_counts.h apply: it was younger than the replay interval and
// the delay of one message, a fault was younger than the time of a retry, or the origin lost it and
// its process has not detected that yet. A new window counts as read at its start, by the node's
// own clock; accepts before that of nodes whose clocks are ahead may be unknown, too.
//
// Counts that the node accepted before it evicted the tuple belong to another contributor. If it
// evicted the tuple between the decision and the answer, all counts of the cell but this request
// are those of others, and the node knew its own count of the decision as well as the siblings.
//
// Requests that are not relaxed, with verdicts that are not degraded, are accepted in a cell up to
// 1.25 times the limit, plus what the origin lost and what died with a process or an evicted tuple
// before the origin knew of it. Relaxed requests on the same tuple only make it less: they use the
// allowance, and the origin counts them.
//
// All of the above but that holds for relaxed requests: counts that are fresh enough decide them,
// so that each process accepts up to the limit before it knows of the others.
//
// A degraded verdict knows less, for an unlimited time. These always hold: the region exceeds the
// limit only by counts that the node did not know, and no process accepts more than the limit, so
// that all together accept at most the limit times the number of accepting processes.

#include <algorithm>

#include "regional/freshness.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class RegionalBound final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "the regional bound"; }

  Violation after_answer(const RegionView& view, const RequestRecord& record) override {
    if (!record.charged) return {};
    const CellId current = record.cell();
    const CellId last{current.tuple, current.sequence - 1};
    if (auto violation = check_cap(view, record)) return violation;
    if (had_wrong_clock(view.oracle.process(record.contributor.process), current)) return {};
    if (auto violation = check_burst(view, current)) return violation;
    // After it waited, others may have admitted more, and this node may know of that.
    if (!record.has_waited()) {
      if (auto violation = check_total(view, record, current, last)) return violation;
    }
    // The origin may have expired a cell that is over.
    if (record.verdict.basis == Basis::kDegraded || !is_live_at(last, view.now.wall)) return {};

    const Nanos fresh = regional::fresh_for(record.duration, view.guarantees.max_freshness);
    const Nanos deadline = view.guarantees.read_deadline;
    const bool refreshed = record.verdict.basis == Basis::kRefreshed;
    if (auto violation = check_unknown(view, record, current, refreshed ? deadline : fresh)) {
      return violation;
    }
    if (record.algorithm != Algorithm::kSlidingWindow) return {};
    // A strict tuple reads only its current window; the last one may be older.
    return check_unknown(view, record, last, refreshed ? std::max(deadline, fresh) : fresh);
  }

 private:
  static Violation check_cap(const RegionView& view, const RequestRecord& record) {
    const Count mine = view.oracle.accepted_by(record.contributor, record.cell());
    if (mine <= record.limit) return {};
    // The process remembers nothing of what steps admitted without a tuple, and the origin nothing
    // of a window that is over by its own clock.
    const bool is_unknown =
        view.origin.has_lost(record.cell()) ||
        had_wrong_clock(view.oracle.process(record.contributor.process), record.cell());
    if (record.contributor.generation == 0 && is_unknown) return {};
    return "process " + std::to_string(record.contributor.process) + " by itself accepted " +
           std::to_string(mine) + " of " + std::to_string(record.limit);
  }

  static Violation check_burst(const RegionView& view, const CellId& cell) {
    const Count accepted = view.oracle.accepted_by_origin_or_allowance(cell);
    const Count limit = view.oracle.largest_limit(cell);
    if (4 * accepted <= 5 * limit || any_had_wrong_clock(view.oracle, cell)) return {};
    // The origin has expired the counts of a window that is over.
    if (!is_live_at(cell, view.now.wall)) return {};
    const Count excused = missing_counts(view, cell).died_unacked + lost_at_origin(view, cell);
    if (4 * accepted <= 5 * limit + 4 * excused) return {};
    return "the region has accepted " + std::to_string(accepted) + " of " + std::to_string(limit) +
           " in window " + std::to_string(cell.sequence) + ", and only " + std::to_string(excused) +
           " were lost";
  }

  // Only counts that the node did not know exceed the limit.
  static Violation check_total(const RegionView& view, const RequestRecord& record,
                               const CellId& current, const CellId& last) {
    const WallTime start(current.sequence * record.duration);
    const Millis passed = std::max(record.decided_at(), start) - start;
    if (passed > record.duration) return "charged a window that was over when it was decided";
    const Millis rest = record.duration - passed;
    const auto weighed = [&](Count count) {
      if (record.algorithm != Algorithm::kSlidingWindow) return Count{0};
      return count * static_cast<Count>(rest.count()) / static_cast<Count>(record.duration.count());
    };
    // One step may decide several requests, which are answered in any order: of its own accepts
    // only those before the decision count.
    const Count mine = view.oracle.accepted_by(record.contributor, current);
    const Count at_decision = std::min(mine, record.verdict.evidence.own + record.cost);
    const Count total =
        view.oracle.accepted(current) - mine + at_decision + weighed(view.oracle.accepted(last));
    const Count unknown =
        unknown_of(view, record, current) + weighed(unknown_of(view, record, last));
    if (total <= record.limit + unknown + 1) return {};  // two roundings lose up to 1
    return "the region has accepted " + std::to_string(total) + " of " +
           std::to_string(record.limit) + ", of which only " + std::to_string(unknown) +
           " were unknown to node " + std::to_string(record.node);
  }

  // Whether the tuple was evicted between the decision and the answer.
  static bool was_evicted(const RequestRecord& record) {
    return record.has_waited() && record.contributor.generation == 0;
  }

  // The counts of others in the cell that this node did not know.
  static Count unknown_of(const RegionView& view, const RequestRecord& record, const CellId& cell) {
    const NodeView& node = view.nodes.at(static_cast<size_t>(record.node));
    const bool is_current = cell == record.cell();
    // While the request waited, its tuple was evicted or a new window began.
    const bool gone = record.contributor.generation == 0 ||
                      node.latest >= WallTime((record.cell().sequence + 1) * record.duration);
    if (record.has_waited() && !is_current && gone) return 0;
    Count known = record.has_waited() && is_current ? record.verdict.evidence.siblings : 0;
    if (was_evicted(record)) known += record.verdict.evidence.own;
    for (const decide::CellView& known_cell : node.cells) {
      if (known_cell.tuple == cell.tuple && known_cell.sequence == cell.sequence)
        known = std::max(known, known_cell.siblings);
    }
    const Count mine =
        was_evicted(record) ? record.cost : view.oracle.accepted_by(record.contributor, cell);
    const Count others = view.oracle.accepted(cell) - mine;
    return others > known ? others - known : 0;
  }

  static Violation check_unknown(const RegionView& view, const RequestRecord& record,
                                 const CellId& cell, Nanos age) {
    const Count unknown = unknown_of(view, record, cell);
    if (unknown == 0) return {};
    const MonoTime since = record.requested_at.mono - age;
    const WallTime start(cell.sequence * record.duration);
    const Nanos apart = view.guarantees.max_clock_skew;
    const bool began_lately = record.requested_at.wall - start < age + apart;
    Count explained = 0;
    for (const Accept& accept : view.oracle.accepts(cell)) {
      if (accept.contributor == record.contributor && !was_evicted(record)) continue;
      // It may have been decided before this accept.
      const bool later = record.has_waited() && accept.when >= record.requested_at.mono;
      const bool at_the_start = began_lately && accept.when >= since - apart;
      if (later || at_the_start ||
          replay_status(view, cell, accept, since) == ReplayStatus::kExcused) {
        explained += accept.cost;
      }
    }
    // The request itself, which was accepted when it was answered.
    if (was_evicted(record)) explained -= record.cost;
    if (unknown <= explained) return {};
    return "node " + std::to_string(record.node) + " did not know " + std::to_string(unknown) +
           " counts of others in window " + std::to_string(cell.sequence) + ", and only " +
           std::to_string(explained) + " can have been in flight";
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_regional_bound() {
  return std::make_unique<RegionalBound>();
}

}  // namespace weir::sim
