// An import reaches every process of the region. Without faults, a process that has read a tuple
// uses the counts of other regions that its origin has, once a message can have arrived: those of
// the current and the previous window, also counts that arrived before its own clock had reached
// their window.

#include <map>
#include <tuple>

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"
#include "sim/checkers/read_tuples.h"

namespace weir::sim {
namespace {

class ImportsAreUsed final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "imports are used"; }

  Violation after_answer(const GlobalView& view, int region, const RequestRecord& record) override {
    read_.note_answer(view, region, record);
    return {};
  }

  Violation at_audit(const GlobalView& view) override {
    if (view.disrupted_since) {
      read_.clear();
      unused_since_.clear();
      return {};
    }
    for (size_t i = 0; i < view.regions.size(); ++i) {
      if (!view.regions[i].has_origin) continue;
      for (const NodeView& node : view.regions[i].nodes) {
        if (auto violation = check(view, static_cast<int>(i), node)) return violation;
      }
    }
    return {};
  }

 private:
  using ProcessCell = std::tuple<int, int, CellId>;  // region, process

  Violation check(const GlobalView& view, int index, const NodeView& node) {
    const RegionState& region = view.regions[static_cast<size_t>(index)];
    // It may use counts that it dropped once it has the capacity.
    if (!node.runs() || node.sync.left_out > 0) return {};
    for (const decide::CellView& cell : node.cells) {
      const CellId id{cell.tuple, cell.sequence};
      const ProcessCell key{index, node.process, id};
      // A clock that was set back had taken the cell for over.
      const bool excused = !read_.contains(index, node, cell) || !is_live_at(id, node.latest) ||
                           had_wrong_clock(region.oracle.process(node.process), id);
      const Count sent = excused ? 0 : sent_by_now(view, region, id);
      if (cell.foreign >= sent) {
        unused_since_.erase(key);
        continue;
      }
      const auto [since, is_new] = unused_since_.emplace(key, view.now.mono);
      if (view.now.mono - since->second <= view.guarantees.read_deadline) continue;
      return "the origin of " + region.name + " has " + std::to_string(sent) +
             " of other regions in window " + std::to_string(cell.sequence) + ", but node " +
             std::to_string(node.node) + " uses " + std::to_string(cell.foreign);
    }
    return {};
  }

  // The counts of other regions that the origin has had for as long as a message takes.
  static Count sent_by_now(const GlobalView& view, const RegionState& region, const CellId& cell) {
    const RegionCounts* const known =
        region.origin.bridge().counts_at(cell.tuple, view.now.mono - view.delays.notice);
    Count sum = 0;
    for (const RegionState& other : view.regions) {
      if (known == nullptr || other.name == region.name) continue;
      const RegionCount* const count = known->find(other.name, cell.sequence);
      if (count != nullptr) sum += count->count;
    }
    return sum;
  }

  ReadTuples read_;
  std::map<ProcessCell, MonoTime> unused_since_;
};

}  // namespace

std::unique_ptr<GlobalChecker> make_imports_are_used() {
  return std::make_unique<ImportsAreUsed>();
}

}  // namespace weir::sim
