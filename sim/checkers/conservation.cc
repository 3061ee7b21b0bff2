// After calm, the origin has of every cell that still matters exactly what was accepted,
// and every node knows it. Nobody crashes in this world, so nothing may be missing.

#include <numeric>

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class Conservation final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "conservation"; }

  Fault at_end(const WorldView& world) override {
    for (const NodeView& node : world.nodes) {
      for (const limiter::CellView& cell : node.cells) {
        const CellId id{cell.tuple, cell.sequence};
        if (still_matters(world, cell) == false) continue;
        Count total = 0;
        for (const auto& [component, count] : world.origin.components(id)) total += count;
        if (total != world.truth.accepted(id)) {
          return "the origin has " + std::to_string(total) + " of " +
                 std::to_string(world.truth.accepted(id)) + " accepted";
        }
        if (cell.own + cell.siblings != world.truth.accepted(id)) {
          return "node " + std::to_string(node.node) + " has not heard of all that was accepted";
        }
      }
    }
    return {};
  }

 private:
  // The window at the end and the one before it.
  static bool still_matters(const WorldView& world, const limiter::CellView& cell) {
    memory::KeyHeader header;
    std::copy_n(cell.tuple.data(), sizeof header.word, reinterpret_cast<char*>(&header.word));
    return cell.sequence + 1 >= world.now.time_since_epoch() / header.duration();
  }
};

}  // namespace

std::unique_ptr<Checker> make_conservation() {
  return std::make_unique<Conservation>();
}

}  // namespace weir::sim
