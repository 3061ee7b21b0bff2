// After calm, the origin has of every cell that still matters exactly what was accepted,
// less what nobody can tell any more: what killed processes had not told, and what of ended
// ones the origin lost later. The first is no more than what was excused in the instant of
// their death; a process that was drained takes nothing with it, and one that forgets a tuple for
// want of room has told it.

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
      if (total + missing.died_unacked + missing.lost_with_origin == accepted) continue;
      return "the origin has " + std::to_string(total) + " of " + std::to_string(accepted) +
             " accepted; " + std::to_string(missing.died_unacked) + " died untold, " +
             std::to_string(missing.lost_with_origin) + " of the dead were lost by the origin";
    }
    return {};
  }

 private:
  static Violation check_deaths(const RegionView& view, const CellId& cell) {
    for (const Accept& accept : view.oracle.accepts(cell)) {
      const ProcessInfo& process = view.oracle.process(accept.contributor.process);
      // Of a window that was over before, nothing needs to be told.
      if (process.ended ? process.ended->wall >= expiry_of(cell)
                        : !is_live_at(cell, view.now.wall)) {
        continue;
      }
      if (had_wrong_clock(process, cell) || !is_unrecoverable(view, accept.contributor, cell))
        continue;
      Count most = 0;
      for (const ComponentValue& entry : history_of(view, accept.contributor, cell)) {
        most = std::max(most, entry.count);
      }
      if (most >= accept.total) continue;
      const std::string who = "process " + std::to_string(process.number);
      if (!process.ended) return who + " forgot a tuple that it had not told";
      if (process.exit == ProcessInfo::Exit::kDrained)
        return who + " was drained and had not told everything";
      if (replay_status(view, cell, accept, process.ended->mono) == ReplayStatus::kOverdue) {
        return who + " took more with it than it may";
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
