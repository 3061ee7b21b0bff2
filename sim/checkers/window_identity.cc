// No accept touches a cell that is not of its time: it is decided in the window it was
// asked in or, if the tuple has moved on while a read was under way, in the present one. A
// clock that was set back finds the tuple in a window that it has shown before.

#include "sim/checkers/makers.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

class WindowIdentity final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "window identity"; }

  Fault after_answer(const WorldView& world, const Answered& answered) override {
    const int64_t sequence = answered.cell().sequence;
    const auto of = [&](WallTime at) { return at.time_since_epoch() / answered.duration; };
    const WallTime shown = world.nodes.at(static_cast<size_t>(answered.node)).latest;
    const WallTime latest = std::max(shown, answered.asked.wall);
    if (sequence >= of(answered.asked.wall) && sequence <= of(latest)) return {};
    // A clock that was set right has shown more than it remembers.
    if (went_astray(world.truth.life(answered.account.life), answered.cell())) return {};
    return "decided in window " + std::to_string(sequence) + ", asked in " +
           std::to_string(of(answered.asked.wall));
  }

  Fault after_event(const WorldView& world) override {
    for (const NodeView& node : world.nodes) {
      if (!node.touched) continue;
      for (const decide::CellView& cell : node.cells) {
        const Account account{node.life, cell.generation};
        if (cell.own > 0 && world.truth.accepted_by(account, {cell.tuple, cell.sequence}) == 0) {
          return "a count moved into a window in which nothing was accepted";
        }
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Checker> make_window_identity() {
  return std::make_unique<WindowIdentity>();
}

}  // namespace weir::sim
