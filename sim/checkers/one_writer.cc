// A component at the origin is written by one process in its one life, and holds what
// that accepted, nothing heard and nothing tentative.

#include <map>

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class OneWriter final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "one writer per component"; }

  Fault after_write(const WorldView& world, const Written& written) override {
    const CellReplay& acked = written.acked;
    const std::string who = "process " + std::to_string(written.life);
    if (acked.writer.incarnation != world.truth.life(written.life).incarnation) {
      return who + " wrote another's component";
    }
    const auto [writer, first] = writers_.emplace(acked.writer.incarnation, written.life);
    if (!first && writer->second != written.life) {
      return who + " wrote under the name of process " + std::to_string(writer->second);
    }
    const Count accepted =
        world.truth.accepted_by({written.life, acked.writer.generation}, acked.cell);
    if (acked.total > accepted) {
      return who + " told " + std::to_string(acked.total) + ", but accepted " +
             std::to_string(accepted);
    }
    return {};
  }

 private:
  std::map<uint64_t, int> writers_;  // by incarnation
};

}  // namespace

std::unique_ptr<Checker> make_one_writer() {
  return std::make_unique<OneWriter>();
}

}  // namespace weir::sim
