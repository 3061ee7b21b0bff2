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
// What the node accepted before it forgot the tuple for want of room is another's to it.
//
// A degraded verdict knows less, for how long nobody can say. What always holds: the region
// exceeds the limit only by what the node did not know, and no process accepts more than the
// limit, so that all together accept at most the limit times those that did.

#include <algorithm>

#include "regional/freshness.h"
#include "sim/checkers/makers.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

class RegionalBound final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "the regional bound"; }

  Fault after_answer(const WorldView& world, const Answered& answered) override {
    if (!answered.charged) return {};
    const CellId current = answered.cell();
    const CellId last{current.tuple, current.sequence - 1};
    if (auto fault = check_cap(world, answered)) return fault;
    if (went_astray(world.truth.life(answered.account.life), current)) return {};
    if (auto fault = check_total(world, answered, current, last)) return fault;
    // What is over the origin may have forgotten.
    if (answered.verdict.basis == Basis::kDegraded || !matters_at(last, world.now.wall)) return {};

    const Nanos fresh = regional::fresh_for(answered.duration, world.promises.max_freshness);
    const Nanos deadline = world.promises.read_deadline;
    const bool refreshed = answered.verdict.basis == Basis::kRefreshed;
    if (auto fault = check_unknown(world, answered, current, refreshed ? deadline : fresh)) {
      return fault;
    }
    if (answered.algorithm != Algorithm::kSlidingWindow) return {};
    // A strict tuple reads its current window only: the last one is as old as it was.
    return check_unknown(world, answered, last, refreshed ? std::max(deadline, fresh) : fresh);
  }

 private:
  static Fault check_cap(const WorldView& world, const Answered& answered) {
    const Count mine = world.truth.accepted_by(answered.account, answered.cell());
    if (mine <= answered.limit) return {};
    return "process " + std::to_string(answered.account.life) + " alone accepted " +
           std::to_string(mine) + " of " + std::to_string(answered.limit);
  }

  // The limit is exceeded only by what the node did not know, whatever the reason.
  static Fault check_total(const WorldView& world, const Answered& answered, const CellId& current,
                           const CellId& last) {
    const WallTime start(current.sequence * answered.duration);
    const Millis passed = std::max(answered.decided(), start) - start;
    if (passed > answered.duration) return "charged a window that was over when it was decided";
    const Millis rest = answered.duration - passed;
    const auto weighed = [&](Count count) {
      if (answered.algorithm != Algorithm::kSlidingWindow) return Count{0};
      return count * static_cast<Count>(rest.count()) /
             static_cast<Count>(answered.duration.count());
    };
    const Count total = world.truth.accepted(current) + weighed(world.truth.accepted(last));
    const Count unknown =
        unknown_of(world, answered, current) + weighed(unknown_of(world, answered, last));
    if (total <= answered.limit + unknown + 1) return {};  // two roundings lose up to 1
    return "the region has accepted " + std::to_string(total) + " of " +
           std::to_string(answered.limit) + ", of which only " + std::to_string(unknown) +
           " were unknown to node " + std::to_string(answered.node);
  }

  // What others accepted in the cell and this node did not know.
  static Count unknown_of(const WorldView& world, const Answered& answered, const CellId& cell) {
    Count known = 0;
    for (const decide::CellView& view : world.nodes.at(static_cast<size_t>(answered.node)).cells) {
      if (view.tuple == cell.tuple && view.sequence == cell.sequence) known = view.siblings;
    }
    const Count others =
        world.truth.accepted(cell) - world.truth.accepted_by(answered.account, cell);
    return others > known ? others - known : 0;
  }

  static Fault check_unknown(const WorldView& world, const Answered& answered, const CellId& cell,
                             Nanos age) {
    const Count unknown = unknown_of(world, answered, cell);
    if (unknown == 0) return {};
    const MonoTime since = answered.asked.mono - age;
    const WallTime start(cell.sequence * answered.duration);
    const Nanos apart = world.promises.clocks_apart;
    const bool began_lately = answered.asked.wall - start < age + apart;
    Count explained = 0;
    for (const Accept& accept : world.truth.accepts(cell)) {
      if (accept.account == answered.account) continue;
      const bool at_the_start = began_lately && accept.when >= since - apart;
      if (at_the_start || standing_of(world, cell, accept, since) == Standing::kExcused) {
        explained += accept.cost;
      }
    }
    if (unknown <= explained) return {};
    return "node " + std::to_string(answered.node) + " did not know " + std::to_string(unknown) +
           " that others had accepted in window " + std::to_string(cell.sequence) + ", and only " +
           std::to_string(explained) + " can have been in flight";
  }
};

}  // namespace

std::unique_ptr<Checker> make_regional_bound() {
  return std::make_unique<RegionalBound>();
}

}  // namespace weir::sim
