// After faults have ended, the origin has exactly the accepted counts of every live cell, less
// those that cannot be recovered: counts that killed processes had not replayed, and counts of
// ended processes that the origin lost later. As far as the region had published them, the bridge
// restores them. The former are no more than what was excused when the process was killed. A
// drained process loses nothing, and a process evicts only tuples that it has replayed. The origin
// also has what a step granted to requests that did not wait. Relaxed requests on windows are in
// all these counts.

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class Conservation final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "conservation"; }

  Violation at_end(const RegionView& view) override {
    for (const auto& [cell, accepted] : view.oracle.cells()) {
      if (auto violation = check_deaths(view, cell)) return violation;
      if (!is_live_at(cell, view.now.wall) || any_had_wrong_clock(view.oracle, cell)) continue;
      const MissingCounts missing = missing_counts(view, cell);
      Count total = 0;
      for (const auto& [component, count] : view.origin.components(cell)) total += count;
      const Count lost = missing.died_unacked + missing.lost_with_origin;
      const Count most =
          accepted + view.origin.restored(cell) + unanswered_grants(view.oracle, view.origin, cell);
      if (total <= most && total + lost >= accepted) continue;
      return "the origin has " + std::to_string(total) + " of " + std::to_string(accepted) +
             " accepted; " + std::to_string(missing.died_unacked) +
             " were lost with their process, " + std::to_string(missing.lost_with_origin) +
             " of ended processes were lost by the origin";
    }
    return {};
  }

 private:
  static Violation check_deaths(const RegionView& view, const CellId& cell) {
    for (const Accept& accept : view.oracle.accepts(cell)) {
      const ProcessInfo& process = view.oracle.process(accept.contributor.process);
      // Counts of a window that was over before need no replay.
      if (process.ended ? process.ended->wall >= expiry_of(cell)
                        : !is_live_at(cell, view.now.wall)) {
        continue;
      }
      if (had_wrong_clock(process, cell) || !is_unrecoverable(view, accept.contributor, cell))
        continue;
      // A step told the origin of it before the tuple was evicted.
      if (accept.contributor.generation == 0) continue;
      Count most = 0;
      for (const ComponentValue& entry : history_of(view, accept.contributor, cell)) {
        most = std::max(most, entry.count);
      }
      if (most >= accept.total) continue;
      const std::string subject = "process " + std::to_string(process.number);
      if (!process.ended) return subject + " evicted a tuple that it had not replayed";
      if (process.exit == ProcessInfo::Exit::kDrained)
        return subject + " was drained before all counts were acknowledged";
      if (replay_status(view, cell, accept, process.ended->mono) == ReplayStatus::kOverdue) {
        return subject + " lost more counts at its end than is excused";
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_conservation() {
  return std::make_unique<Conservation>();
}

}  // namespace weir::sim
