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
    const CellReplay& told = written.told;
    Components before = written.before;
    Components after = written.after;
    const Count had = before[told.writer];
    const Count has = after[told.writer];
    before.erase(told.writer);
    after.erase(told.writer);
    if (before != after) return "a write of one process changed the component of another";
    if (has != had && has != told.total) {
      return "a write of " + std::to_string(told.total) + " on " + std::to_string(had) + " left " +
             std::to_string(has);
    }
    if (has > world.truth.accepted_by({written.life, told.writer.generation}, told.cell)) {
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
