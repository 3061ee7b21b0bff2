// Only one process writes a component of the origin, and only counts that it accepted: no imported
// and no tentative ones.

#include <algorithm>
#include <map>

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

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
    const Count accepted = view.oracle.accepted_by_process(write.process, replay.cell);
    if (write.told > accepted + unanswered_grants(view.oracle, view.origin, replay.cell)) {
      return subject + " told " + std::to_string(write.told) + ", but accepted " +
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
