// Within a region, what can exceed the limit is only what is in flight between nodes: a
// verdict that is not degraded knows all that the origin had one freshness interval
// before, or when the read it waited for began. With honest verdicts this gives accepts <= limit +
// what was accepted and not yet told, or told within that interval.

#include <algorithm>

#include "regional/freshness.h"
#include "sim/checkers/makers.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

class FreshEnough final : public Checker {
 public:
  [[nodiscard]] std::string_view name() const override { return "fresh enough"; }

  Fault after_answer(const WorldView& world, const Answered& answered) override {
    if (answered.verdict.basis == Basis::kDegraded || !answered.verdict.admitted()) return {};
    if (went_astray(world.truth.life(answered.account.life), answered.cell())) return {};
    // What is over the origin may have forgotten.
    if (!matters_at(answered.cell(), world.now.wall)) return {};
    const NodeView& node = world.nodes.at(static_cast<size_t>(answered.node));
    const Component mine{.incarnation = node.incarnation,
                         .generation = answered.account.generation};
    // A read that it joined may have begun up to a deadline before it was asked.
    const Nanos age = answered.verdict.basis == Basis::kRefreshed
                          ? Nanos(world.promises.read_deadline)
                          : regional::fresh_for(answered.duration, world.promises.max_freshness);
    const MonoTime then = answered.asked.mono - age;
    // A warm tuple is fresh from the start of a window, so what siblings whose clocks are
    // ahead did before that start is in flight, too. Since the read its own clock may have
    // been set.
    const WallTime start(answered.cell().sequence * answered.duration);
    if (answered.asked.wall - start < age + world.promises.clocks_apart) return {};
    const Count known = answered.verdict.evidence.siblings;
    const Count had = world.origin.least_others_since(answered.cell(), mine, then);
    if (known >= had) return {};
    return "node " + std::to_string(answered.node) + " knew " + std::to_string(known) +
           " of its siblings, but the origin had " + std::to_string(had);
  }
};

}  // namespace

std::unique_ptr<Checker> make_fresh_enough() {
  return std::make_unique<FreshEnough>();
}

}  // namespace weir::sim
