// A replay is idempotent. A message that arrives at the origin, for the first time, twice or late,
// changes only the component of its writer, and leaves there its own total or the earlier count:
// never more than the writer accepted, and nothing new the second time. A count that a late message
// lowered is replayed again (acked_in_time.cc).

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class IdempotentReplay final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "idempotent replay"; }

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
    if (has > view.oracle.accepted_by_process(write.process, replay.cell) +
                  unanswered_grants(view.oracle, view.origin, replay.cell)) {
      return "a component of " + std::to_string(has) +
             " exceeds the accepted count of its writer " +
             std::to_string(view.oracle.accepted_by_process(write.process, replay.cell)) +
             ", steps granted " + std::to_string(view.origin.granted(replay.cell)) +
             ", of which accepted " + std::to_string(view.oracle.accepted_by_origin(replay.cell));
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_idempotent_replay() {
  return std::make_unique<IdempotentReplay>();
}

}  // namespace weir::sim
