// An accept changes only a cell of its time: the window of the request or, if the tuple moved on
// while a read was in flight, the current one. A clock that was set back finds the tuple in a
// window that it has shown before.

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class WindowIdentity final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "window identity"; }

  Violation after_answer(const RegionView& view, const RequestRecord& record) override {
    const int64_t sequence = record.cell().sequence;
    const auto of = [&](WallTime at) { return at.time_since_epoch() / record.duration; };
    const WallTime shown = view.nodes.at(static_cast<size_t>(record.node)).latest;
    const WallTime latest = std::max(shown, record.requested_at.wall);
    if (sequence >= of(record.requested_at.wall) && sequence <= of(latest)) return {};
    // A corrected clock has shown more than it remembers.
    if (had_wrong_clock(view.oracle.process(record.contributor.process), record.cell())) return {};
    return "decided in window " + std::to_string(sequence) + ", requested in " +
           std::to_string(of(record.requested_at.wall));
  }

  Violation after_event(const RegionView& view) override {
    for (const NodeView& node : view.nodes) {
      if (!node.touched) continue;
      for (const decide::CellView& cell : node.cells) {
        const Contributor contributor{node.process, cell.generation};
        if (cell.own > 0 && node.in_flight == 0 &&
            view.oracle.accepted_by(contributor, {cell.tuple, cell.sequence}) == 0) {
          return "a count moved into a window in which nothing was accepted";
        }
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_window_identity() {
  return std::make_unique<WindowIdentity>();
}

}  // namespace weir::sim
