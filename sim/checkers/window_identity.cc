// An accept changes only a cell of its time: the window of the request or, if the tuple moved on
// while a read was in flight, the current one. A clock that was set back finds the tuple in a
// window that it has shown before; a request that waits meanwhile may be decided at the time that
// the clock then shows.

#include <algorithm>
#include <map>
#include <vector>

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
    const WallTime earliest = record.requested_at.wall - set_back(record);
    if (sequence >= of(earliest) && sequence <= of(latest)) return {};
    // A corrected clock has shown more than it remembers.
    if (had_wrong_clock(view.oracle.process(record.contributor.process), record.cell())) return {};
    return "decided in window " + std::to_string(sequence) + ", requested in " +
           std::to_string(of(record.requested_at.wall));
  }

  Violation after_event(const RegionView& view) override {
    for (const NodeView& node : view.nodes) {
      std::vector<Offset>& offsets = offsets_[node.node];
      const Millis now = offset_of(node.now);
      if (offsets.empty() || offsets.back().of_clock != now) {
        offsets.push_back({.since = node.now.mono, .of_clock = now});
      }
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

 private:
  // By how much the wall clock of a node is ahead of monotonic time.
  struct Offset {
    MonoTime since{};
    Millis of_clock{0};
  };
  static Millis offset_of(const Instant& time) {
    return time.wall.time_since_epoch() - std::chrono::floor<Millis>(time.mono.time_since_epoch());
  }

  // By how much the clock of the node was set back, at most, while the request waited.
  [[nodiscard]] Millis set_back(const RequestRecord& record) const {
    const Millis before = offset_of(record.requested_at);
    Millis least = std::min(before, offset_of(record.answered_at));
    const auto offsets = offsets_.find(record.node);
    if (offsets == offsets_.end()) return before - least;
    for (auto it = offsets->second.rbegin(); it != offsets->second.rend(); ++it) {
      if (it->since < record.requested_at.mono) break;
      least = std::min(least, it->of_clock);
    }
    return before - least;
  }

  std::map<int, std::vector<Offset>> offsets_;  // by node, when they changed
};

}  // namespace

std::unique_ptr<RegionChecker> make_window_identity() {
  return std::make_unique<WindowIdentity>();
}

}  // namespace weir::sim
