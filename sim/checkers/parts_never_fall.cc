// Own, siblings and foreign never decrease while the cell lives.

#include <map>
#include <tuple>

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class PartsNeverFall final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "parts never fall"; }

  Fault after_event(const WorldView& world) override {
    for (const NodeView& node : world.nodes) {
      if (!node.touched) continue;
      for (const decide::CellView& cell : node.cells) {
        Parts& last = seen_[{node.life, cell.generation, cell.sequence}];
        const Parts now{cell.own, cell.siblings, cell.foreign};
        if (now.own < last.own || now.siblings < last.siblings || now.foreign < last.foreign) {
          return "a part of window " + std::to_string(cell.sequence) + " fell on node " +
                 std::to_string(node.node);
        }
        last = now;
      }
    }
    return {};
  }

 private:
  struct Parts {
    Count own = 0;
    Count siblings = 0;
    Count foreign = 0;
  };
  // By life; a tuple made anew has another generation, unique in it.
  std::map<std::tuple<int, uint64_t, int64_t>, Parts> seen_;
};

}  // namespace

std::unique_ptr<Checker> make_parts_never_fall() {
  return std::make_unique<PartsNeverFall>();
}

}  // namespace weir::sim
