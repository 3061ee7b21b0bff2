// Sending again is free. Whatever arrives at the origin, for the first time, twice or late,
// touches the component of its writer alone, and leaves there what it says or what was
// there: never more than its writer accepted, and the second time nothing new. What a late
// one lowers is told again (told in time).

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class IdempotentReplay final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "retrying is free"; }

  Violation after_write(const RegionView& view, const OriginWrite& write) override {
    const CellReplay& replay = write.replay;
    Components before = write.before;
    Components after = write.after;
    const Count had = before[replay.writer];
    const Count has = after[replay.writer];
    before.erase(replay.writer);
    after.erase(replay.writer);
    if (before != after) return "a write of one process changed the component of another";
    if (has != had && has != replay.total) {
      return "a write of " + std::to_string(replay.total) + " on " + std::to_string(had) +
             " left " + std::to_string(has);
    }
    if (has > view.oracle.accepted_by({write.process, replay.writer.generation}, replay.cell)) {
      return "a component exceeds what its writer accepted";
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_idempotent_replay() {
  return std::make_unique<IdempotentReplay>();
}

}  // namespace weir::sim
