// The exported bound: at each accept, all regions together have accepted in the cell at most
//
//   B L + recent
//
// with B the bound that the accepting process exports for the namespace, L the largest limit, and
// `recent` the counts accepted anywhere in the last 2 D and in the time that a change of the bound
// takes to arrive. This holds under any fault; D is the delay without faults. A region may exceed
// the limit by counts in flight between its nodes or accepted in isolation; the regional bound
// covers those. Nobody knows of counts that were not published when their process ended and the
// origin lost them.

#include <algorithm>
#include <map>

#include "base/wide.h"
#include "global/ledger_key.h"
#include "sim/checkers/makers.h"

namespace weir::sim {
namespace {

// Other regions detect after 6 s that a region is silent, and each of them reads that within 2 s
// more, or detects another 2 s later that it reads nothing.
constexpr Millis kBoundReceivedWithin{10'000};

class ExportedBound final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "the exported bound"; }

  Violation after_answer(const GlobalView& view, int region, const RequestRecord& record) override {
    Count& largest = limits_[record.tuple];
    largest = std::max(largest, record.limit);
    if (!record.charged) return {};
    // As of the last audit, at most 100 ms ago.
    const NodeView& node =
        view.regions[static_cast<size_t>(region)].nodes[static_cast<size_t>(record.node)];
    const double exported = bound_of(node, record.tuple);
    if (!node.sync.ready || exported <= 0) return {};

    const CellId cell = record.cell();
    const MonoTime from = view.now.mono - 2 * view.delays.total() - kBoundReceivedWithin;
    Count accepted = 0, recent = 0, alone = 0;
    for (const RegionState& other : view.regions) {
      Count there = 0;
      for (const auto* accepts : {&other.oracle.accepts(cell), &other.oracle.sketched(cell)}) {
        for (const Accept& accept : *accepts) {
          there += accept.cost;
          if (accept.when >= from) recent += accept.cost;
        }
      }
      accepted += there;
      alone += lost(view, other, cell);
      if (there > largest) alone += there - largest;
    }
    const double most =
        exported * static_cast<double>(largest) + static_cast<double>(recent + alone);
    // Each part of the bound may be rounded down to whole units.
    const auto units = static_cast<double>(view.regions.size());
    if (static_cast<double>(accepted) <= most + units) return {};
    return "all regions have accepted " + std::to_string(accepted) + " of " +
           std::to_string(largest) + " in window " + std::to_string(cell.sequence) + ", " +
           std::to_string(recent) + " of them recently, and node " + std::to_string(record.node) +
           " exports a bound of " + std::to_string(exported);
  }

 private:
  static double bound_of(const NodeView& node, const std::string& tuple) {
    if (node.sync.wider_bounds.empty()) return node.sync.bound;
    const global::Tenant tenant = global::tenant_of(tuple);
    return node.sync.bound_of(tenant.workspace, tenant.ns);
  }

  static Count lost(const GlobalView& view, const RegionState& region, const CellId& cell) {
    if (!region.origin.bridge().lost_at()) return 0;
    Count ended = 0;
    for (const Accept& accept : region.oracle.accepts(cell)) {
      if (region.oracle.process(accept.contributor.process).ended) ended += accept.cost;
    }
    return base::saturating_sub(ended, view.ledger.max_committed({cell, region.name}));
  }

  std::map<std::string, Count> limits_;  // the largest of all requests
};

}  // namespace

std::unique_ptr<GlobalChecker> make_exported_bound() {
  return std::make_unique<ExportedBound>();
}

}  // namespace weir::sim
