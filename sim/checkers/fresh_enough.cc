// Within a region only counts in flight between nodes can exceed the limit: a verdict that is not
// degraded knows all counts that the origin had one freshness interval before, or when the read
// that it waited for began. With consistent verdicts this gives accepts <= limit + counts not
// replayed yet or replayed within that interval. It is all that a relaxed request is promised: it
// waits for a read where its process knows less.

#include <algorithm>

#include "regional/freshness.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

class FreshEnough final : public RegionChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "fresh enough"; }

  Violation after_answer(const RegionView& view, const RequestRecord& record) override {
    if (record.verdict.basis == Basis::kDegraded || !record.verdict.admitted()) return {};
    if (had_wrong_clock(view.oracle.process(record.contributor.process), record.cell())) return {};
    // The origin may have expired a cell that is over.
    if (!is_live_at(record.cell(), view.now.wall)) return {};
    // Its tuple was evicted since its step: the component of the decision is unknown.
    if (record.contributor.generation == 0) return {};
    const NodeView& node = view.nodes.at(static_cast<size_t>(record.node));
    const Component mine{.incarnation = node.incarnation,
                         .generation = record.contributor.generation};
    // A read that the request joined may have begun up to a deadline before the request.
    const Nanos age = record.verdict.basis == Basis::kRefreshed
                          ? Nanos(view.guarantees.read_deadline)
                          : regional::fresh_for(record.duration, view.guarantees.max_freshness);
    const MonoTime then = record.requested_at.mono - age;
    // A warm tuple is fresh from the start of a window, so accepts of siblings whose clocks are
    // ahead, before that start, are in flight, too. The node's own clock may have been set since
    // the read.
    const WallTime start(record.cell().sequence * record.duration);
    if (record.requested_at.wall - start < age + view.guarantees.max_clock_skew) return {};
    const Count known = record.verdict.evidence.siblings;
    const Count had = view.origin.least_others_since(record.cell(), mine, then);
    if (known >= had) return {};
    return "node " + std::to_string(record.node) + " knew " + std::to_string(known) +
           " of its siblings, but the origin had " + std::to_string(had);
  }
};

}  // namespace

std::unique_ptr<RegionChecker> make_fresh_enough() {
  return std::make_unique<FreshEnough>();
}

}  // namespace weir::sim
