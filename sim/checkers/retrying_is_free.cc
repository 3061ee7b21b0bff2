// Sending again is free. Whatever arrives at the origin, for the first time, twice or late,
// touches the component of its writer alone, and leaves there what it says or what was
// there: never more than its writer accepted, and the second time nothing new. What a late
// one lowers is told again (told in time).

#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

class RetryingIsFree final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "retrying is free"; }

  Fault after_write(const WorldView& world, const Written& written) override {
    const CellReplay& acked = written.acked;
    Components before = written.before;
    Components after = written.after;
    const Count had = before[acked.writer];
    const Count has = after[acked.writer];
    before.erase(acked.writer);
    after.erase(acked.writer);
    if (before != after) return "a write of one process changed the component of another";
    if (has != had && has != acked.total) {
      return "a write of " + std::to_string(acked.total) + " on " + std::to_string(had) + " left " +
             std::to_string(has);
    }
    if (has > world.truth.accepted_by({written.life, acked.writer.generation}, acked.cell)) {
      return "a component exceeds what its writer accepted";
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Checker> make_retrying_is_free() {
  return std::make_unique<RetryingIsFree>();
}

}  // namespace weir::sim
