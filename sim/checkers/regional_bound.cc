// The regional bound: at each accept, what the region has accepted in the cell is at most
// the limit and what was in flight between its nodes.
//
// A node accepts only what fits the limit together with what it knows (honest verdicts), so
// the region exceeds a limit by no more than the last to accept could not know of the
// others. If its verdict is not degraded, it has read the origin one freshness interval
// before at the earliest (or its read deadline, if it waited for a read; one that it joined
// had begun by then). So each accept of another that it does not know was missing at the
// origin at some time since, and for that there are only the excuses of sim/missing.h: it
// was younger than the replay interval and the delay of one message, a fault was younger
// than the time it takes to send again, or the origin lost it and its process has not heard
// of that yet. A new window counts as read at its start, by the node's own clock; what
// others, whose clocks are ahead, did before that may be unknown too.
//
// A degraded verdict knows less, for how long nobody can say. What always holds: no process
// accepts more than the limit, so all together at most the limit times those that did.

#include <algorithm>
#include <map>

#include "limiter/freshness.h"
#include "sim/checkers/makers.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

class RegionalBound final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "the regional bound"; }

  Fault after_answer(const WorldView& world, const Answered& answered) override {
    if (!answered.charged) return {};
    if (const Fault fault = check_cap(world, answered)) return fault;
    if (answered.verdict.basis == Basis::kDegraded) return {};

    const Nanos fresh = limiter::fresh_for(answered.duration, world.promises.max_freshness);
    const Nanos deadline = world.promises.read_deadline;
    const bool refreshed = answered.verdict.basis == Basis::kRefreshed;
    const CellId current = answered.cell();
    const CellId previous{current.tuple, current.sequence - 1};
    // A strict tuple reads its current window only: the last one is as old as it was.
    const Nanos age = refreshed ? deadline : fresh;
    const Nanos age_of_last = refreshed ? std::max(deadline, fresh) : fresh;
    if (auto fault = check_cell(world, answered, current, age)) return fault;
    if (answered.algorithm != Algorithm::kSlidingWindow) return {};
    return check_cell(world, answered, previous, age_of_last);
  }

 private:
  static Fault check_cap(const WorldView& world, const Answered& answered) {
    const Count mine = world.truth.accepted_by(answered.life, answered.cell());
    if (mine <= answered.limit) return {};
    return "process " + std::to_string(answered.life) + " alone accepted " + std::to_string(mine) +
           " of " + std::to_string(answered.limit);
  }

  static Fault check_cell(const WorldView& world, const Answered& answered, const CellId& cell,
                          Nanos age) {
    Count known = 0;
    for (const limiter::CellView& view : world.nodes.at(static_cast<size_t>(answered.node)).cells) {
      if (view.tuple == cell.tuple && view.sequence == cell.sequence) known = view.siblings;
    }
    const Count others = world.truth.accepted(cell) - world.truth.accepted_by(answered.life, cell);
    if (others <= known) return {};

    const MonoTime since = answered.asked.mono - age;
    const WallTime start(cell.sequence * answered.duration);
    const Nanos apart = world.promises.clocks_apart;
    const bool began_lately = answered.asked.wall - start < age + apart;
    Count explained = 0;
    for (const Accept& accept : world.truth.accepts(cell)) {
      if (accept.life == answered.life) continue;
      const bool at_the_start = began_lately && accept.when >= since - apart;
      if (at_the_start || standing_of(world, cell, accept, since) == Standing::kExcused) {
        explained += accept.cost;
      }
    }
    if (others - known <= explained) return {};
    return "node " + std::to_string(answered.node) + " knew " + std::to_string(known) + " of the " +
           std::to_string(others) + " that others had accepted in window " +
           std::to_string(cell.sequence) + ", and only " + std::to_string(explained) +
           " can have been in flight";
  }
};

}  // namespace

std::unique_ptr<Checker> make_regional_bound() {
  return std::make_unique<RegionalBound>();
}

}  // namespace weir::sim
