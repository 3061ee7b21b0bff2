// The regional bound: at each accept, what the region has accepted in the cell is at most
// the limit and what was in flight between its nodes.
//
// A node accepts only what fits the limit together with what it knows (honest verdicts), so
// the region exceeds a limit by no more than the last to accept could not know of the
// others. If its verdict is not degraded, it has read the origin one freshness interval
// before at the earliest (or its read deadline, if it waited for a read; one that it joined
// had begun by then). So each accept of another that it does not know was missing at the
// origin at some time since, and for that there are only the excuses of sim/missing.h: it
// was younger than the replay interval and the delay of one message, a fault was younger
// than the time it takes to send again, or the origin lost it and its process has not heard
// of that yet. A new window counts as read at its start, by the node's own clock; what
// others, whose clocks are ahead, did before that may be unknown too.
//
// What the node accepted before it forgot the tuple for want of room is another's to it.
//
// A degraded verdict knows less, for how long nobody can say. What always holds: the region
// exceeds the limit only by what the node did not know, and no process accepts more than the
// limit, so that all together accept at most the limit times those that did.

#include <algorithm>

#include "limiter/freshness.h"
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
    if (auto violation = check_total(view, record, current, last)) return violation;
    // What is over the origin may have forgotten.
    if (record.verdict.basis == Basis::kDegraded || !is_live_at(last, view.now.wall)) return {};

    const Nanos fresh = limiter::fresh_for(record.duration, view.guarantees.max_freshness);
    const Nanos deadline = view.guarantees.read_deadline;
    const bool refreshed = record.verdict.basis == Basis::kRefreshed;
    if (auto violation = check_unknown(view, record, current, refreshed ? deadline : fresh)) {
      return violation;
    }
    if (record.algorithm != Algorithm::kSlidingWindow) return {};
    // A strict tuple reads its current window only: the last one is as old as it was.
    return check_unknown(view, record, last, refreshed ? std::max(deadline, fresh) : fresh);
  }

 private:
  static Violation check_cap(const RegionView& view, const RequestRecord& record) {
    const Count mine = view.oracle.accepted_by(record.contributor, record.cell());
    if (mine <= record.limit) return {};
    return "process " + std::to_string(record.contributor.process) + " alone accepted " +
           std::to_string(mine) + " of " + std::to_string(record.limit);
  }

  // The limit is exceeded only by what the node did not know, whatever the reason.
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
    const Count total = view.oracle.accepted(current) + weighed(view.oracle.accepted(last));
    const Count unknown =
        unknown_of(view, record, current) + weighed(unknown_of(view, record, last));
    if (total <= record.limit + unknown + 1) return {};  // two roundings lose up to 1
    return "the region has accepted " + std::to_string(total) + " of " +
           std::to_string(record.limit) + ", of which only " + std::to_string(unknown) +
           " were unknown to node " + std::to_string(record.node);
  }

  // What others accepted in the cell and this node did not know.
  static Count unknown_of(const RegionView& view, const RequestRecord& record, const CellId& cell) {
    Count known = 0;
    for (const limiter::CellView& known_cell :
         view.nodes.at(static_cast<size_t>(record.node)).cells) {
      if (known_cell.tuple == cell.tuple && known_cell.sequence == cell.sequence)
        known = known_cell.siblings;
    }
    const Count others =
        view.oracle.accepted(cell) - view.oracle.accepted_by(record.contributor, cell);
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
      if (accept.contributor == record.contributor) continue;
      const bool at_the_start = began_lately && accept.when >= since - apart;
      if (at_the_start || replay_status(view, cell, accept, since) == ReplayStatus::kExcused) {
        explained += accept.cost;
      }
    }
    if (unknown <= explained) return {};
    return "node " + std::to_string(record.node) + " did not know " + std::to_string(unknown) +
           " that others had accepted in window " + std::to_string(cell.sequence) + ", and only " +
           std::to_string(explained) + " can have been in flight";
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_regional_bound() {
  return std::make_unique<RegionalBound>();
}

}  // namespace weir::sim
