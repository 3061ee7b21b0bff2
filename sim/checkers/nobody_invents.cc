// Nobody invents consumption: own is exactly what the node accepted, and own + siblings
// at most what the region did. Hence also: a rejected request or a failed batch changes
// no count anywhere.

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class NobodyInvents final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "nobody invents consumption"; }

  Fault after_event(const WorldView& world) override {
    for (const NodeView& node : world.nodes) {
      if (!node.touched) continue;
      for (const decide::CellView& cell : node.cells) {
        const CellId id{cell.tuple, cell.sequence};
        const Count accepted = world.truth.accepted_by({node.life, cell.generation}, id);
        if (cell.own != accepted) {
          return "node " + std::to_string(node.node) + " counts " + std::to_string(cell.own) +
                 " of its own, but accepted " + std::to_string(accepted);
        }
        if (cell.own + cell.siblings > world.truth.accepted(id)) {
          return "node " + std::to_string(node.node) + " knows more than was accepted";
        }
        if (cell.tentative != 0) return "a batch left tentative cost behind";
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Checker> make_nobody_invents() {
  return std::make_unique<NobodyInvents>();
}

}  // namespace weir::sim
