// Once nothing goes wrong any more, every node agrees on every live cell within two
// schedules and the longest delay, and has nothing left to tell.
//
// A schedule is what may pass from one message of a node about a cell to the next: until
// what it knows is stale and someone asks, then until it is told. The first schedule, after
// the deadline of what was lost last, has each node hear what the origin has of its own and
// tell what is missing; with the second each hears what the others told. From then on no
// verdict is degraded and each knows exactly what was accepted, less what died. Only one
// that refuses already by what it knows need not hear by how much more.

#include "regional/freshness.h"
#include "sim/checkers/makers.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

class Agreement final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "agreement"; }

  Fault after_answer(const WorldView& world, const Answered& answered) override {
    if (!settled(world, answered)) return {};
    if (answered.verdict.basis == Basis::kDegraded) return "a degraded verdict after calm";
    const Evidence& evidence = answered.verdict.evidence;
    if (auto fault = check(world, answered, answered.cell(), evidence.own + evidence.siblings)) {
      return fault;
    }
    for (const decide::CellView& cell : world.nodes.at(static_cast<size_t>(answered.node)).cells) {
      if (cell.tuple != answered.tuple) continue;
      const CellId id{cell.tuple, cell.sequence};
      if (!matters_at(id, world.now.wall)) continue;
      if (auto fault = check(world, answered, id, cell.own + cell.siblings)) return fault;
    }
    return {};
  }

  Fault at_end(const WorldView& world) override {
    for (const NodeView& node : world.nodes) {
      const std::string who = "node " + std::to_string(node.node);
      if (!node.runs()) return who + " does not run";
      if (node.last_replay.done + node.last_replay.waiting != 0) {
        return who + " still has something to tell";
      }
      for (const decide::CellView& cell : node.cells) {
        if (!matters_at({cell.tuple, cell.sequence}, world.now.wall)) continue;
        if (cell.acked != cell.own) return who + " does not know that all was told";
      }
    }
    return {};
  }

 private:
  static bool settled(const WorldView& world, const Answered& answered) {
    if (!world.calm_since) return false;
    const Promises& promises = world.promises;
    Nanos delay{0};
    for (const Life& life : world.truth.lives()) delay = std::max<Nanos>(delay, life.most_delay);
    const Nanos schedule = regional::fresh_for(answered.duration, promises.max_freshness) +
                           promises.acked_within + promises.asked_within;
    return answered.asked.mono - *world.calm_since >
           promises.read_deadline + 2 * (schedule + 2 * delay);
  }

  // What the dead had told and the origin lost, some nodes know and others do not.
  static Fault check(const WorldView& world, const Answered& answered, const CellId& cell,
                     Count known) {
    if (went_astray(world.truth.life(answered.account.life), cell)) return {};
    if (any_went_astray(world.truth, cell)) return {};
    const Missing missing = missing_of(world, cell);
    const Count most = world.truth.accepted(cell) - missing.died_unacked;
    const bool enough = known + missing.lost_with_origin >= most || !answered.verdict.admitted();
    // What the dead had told the ledger is known through it.
    const Count can_be = world.has_ledger ? world.truth.accepted(cell) : most;
    if (known <= can_be && enough) return {};
    return "node " + std::to_string(answered.node) + " knows " + std::to_string(known) + " of " +
           std::to_string(most) + " in window " + std::to_string(cell.sequence);
  }
};

}  // namespace

std::unique_ptr<Checker> make_agreement() {
  return std::make_unique<Agreement>();
}

}  // namespace weir::sim
