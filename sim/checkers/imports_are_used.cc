// A process uses imported rows at once and as long as their window is live: rows of the current and
// the previous window, also those that arrived before its own clock had reached their window. It
// must not need to read them again.

#include <map>
#include <tuple>

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class ImportsAreUsed final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "imports are used"; }

  Violation at_audit(const GlobalView& view) override {
    for (size_t i = 0; i < view.regions.size(); ++i) {
      for (const NodeView& node : view.regions[i].nodes) {
        if (auto violation = check(view, static_cast<int>(i), node)) return violation;
      }
    }
    return {};
  }

 private:
  using ProcessCell = std::tuple<int, int, CellId>;  // region, process

  Violation check(const GlobalView& view, int region, const NodeView& node) {
    // It may use rows that it dropped once it has the capacity.
    if (!node.runs() || !node.received || node.sync.no_room > 0) return {};
    for (const decide::CellView& cell : node.cells) {
      const CellId id{cell.tuple, cell.sequence};
      // A clock that was set back had taken the cell for over.
      if (!is_live_at(id, node.latest)) continue;
      if (had_wrong_clock(view.regions[static_cast<size_t>(region)].oracle.process(node.process),
                          id))
        continue;
      Count received = 0;
      for (size_t i = 0; i < view.regions.size(); ++i) {
        if (static_cast<int>(i) == region) continue;
        received += node.received->row({id, view.regions[i].name}).count;
      }
      const ProcessCell key{region, node.process, id};
      if (cell.foreign >= received) {
        unused_.erase(key);
        continue;
      }
      const auto [found, is_new] = unused_.emplace(key, Unused{view.now.mono, received});
      // It may be a newer row that is not used yet.
      if (cell.foreign >= found->second.received) found->second = {view.now.mono, received};
      if (view.now.mono - found->second.since <= ImportLog::kMergeDelay) continue;
      return "node " + std::to_string(node.node) + " of region " + std::to_string(region) +
             " has received " + std::to_string(received) + " of other regions in window " +
             std::to_string(cell.sequence) + ", but uses " + std::to_string(cell.foreign);
    }
    return {};
  }

  struct Unused {
    MonoTime since{};
    Count received = 0;
  };
  std::map<ProcessCell, Unused> unused_;
};

}  // namespace

std::unique_ptr<GlobalChecker> make_imports_are_used() {
  return std::make_unique<ImportsAreUsed>();
}

}  // namespace weir::sim
