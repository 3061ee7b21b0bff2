// A node's component at the origin is written by that node only, and holds what it
// accepted, nothing heard and nothing tentative.

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class OneWriter final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "one writer per component"; }

  Fault after_replay(const WorldView& world, int node, const CellReplay& told) override {
    if (told.writer.incarnation != world.nodes.at(static_cast<size_t>(node)).incarnation) {
      return "node " + std::to_string(node) + " wrote another's component";
    }
    if (told.total > world.truth.accepted_by(node, told.cell)) {
      return "node " + std::to_string(node) + " told " + std::to_string(told.total) +
             ", but accepted " + std::to_string(world.truth.accepted_by(node, told.cell));
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Checker> make_one_writer() {
  return std::make_unique<OneWriter>();
}

}  // namespace weir::sim
