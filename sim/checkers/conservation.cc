// After calm, the origin has of every cell that still matters exactly what was accepted,
// less what nobody can tell any more: what killed processes had not told, and what of ended
// ones the origin lost later. The first is no more than what was excused in the instant of
// their death; a process that was drained takes nothing with it, and one that forgets a tuple for
// want of room has told it.

#include "sim/checkers/makers.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

class Conservation final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "conservation"; }

  Fault at_end(const WorldView& world) override {
    for (const auto& [cell, accepted] : world.truth.cells()) {
      if (auto fault = check_deaths(world, cell)) return fault;
      if (!matters_at(cell, world.now.wall) || any_went_astray(world.truth, cell)) continue;
      const Missing missing = missing_of(world, cell);
      Count total = 0;
      for (const auto& [component, count] : world.origin.components(cell)) total += count;
      if (total + missing.died_unacked + missing.lost_with_origin == accepted) continue;
      return "the origin has " + std::to_string(total) + " of " + std::to_string(accepted) +
             " accepted; " + std::to_string(missing.died_unacked) + " died untold, " +
             std::to_string(missing.lost_with_origin) + " of the dead were lost by the origin";
    }
    return {};
  }

 private:
  static Fault check_deaths(const WorldView& world, const CellId& cell) {
    for (const Accept& accept : world.truth.accepts(cell)) {
      const Life& life = world.truth.life(accept.account.life);
      // Of a window that was over before, nothing needs to be told.
      if (life.ended ? life.ended->wall >= expiry_of(cell) : !matters_at(cell, world.now.wall)) {
        continue;
      }
      if (went_astray(life, cell) || !is_gone(world, accept.account, cell)) continue;
      Count most = 0;
      for (const Stood& stood : stood_of(world, accept.account, cell)) {
        most = std::max(most, stood.count);
      }
      if (most >= accept.total) continue;
      const std::string who = "process " + std::to_string(life.number);
      if (!life.ended) return who + " forgot a tuple that it had not told";
      if (life.how == Life::End::kDrained) return who + " was drained and had not told everything";
      if (standing_of(world, cell, accept, life.ended->mono) == Standing::kOverdue) {
        return who + " took more with it than it may";
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Checker> make_conservation() {
  return std::make_unique<Conservation>();
}

}  // namespace weir::sim
