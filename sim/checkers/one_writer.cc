// Only one process writes a component of the origin, and only counts that it accepted: no imported
// and no tentative ones.

#include <map>

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class OneWriter final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "one writer per component"; }

  Violation after_write(const RegionView& view, const OriginWrite& write) override {
    const CellReplay& replay = write.replay;
    const std::string subject = "process " + std::to_string(write.process);
    if (replay.writer.incarnation != view.oracle.process(write.process).incarnation) {
      return subject + " wrote a component of another process";
    }
    const auto [writer, first] = writers_.emplace(replay.writer.incarnation, write.process);
    if (!first && writer->second != write.process) {
      return subject + " wrote under the name of process " + std::to_string(writer->second);
    }
    const Count accepted =
        view.oracle.accepted_by({write.process, replay.writer.generation}, replay.cell);
    if (replay.total > accepted) {
      return subject + " replayed " + std::to_string(replay.total) + ", but accepted " +
             std::to_string(accepted);
    }
    return {};
  }

 private:
  std::map<uint64_t, int> writers_;  // by incarnation
};

}  // namespace

std::unique_ptr<RegionChecker> make_one_writer() {
  return std::make_unique<OneWriter>();
}

}  // namespace weir::sim
