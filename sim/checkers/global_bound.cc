// The global bound: at each accept, all regions together have accepted in the cell at most
//
//   (1 + slack) L + sum over the other regions of (hidden - 1) + recent
//
// with `recent` the counts accepted anywhere in the last 2 D, and D the longest time from an accept
// in one region to its use in all others (delays.h). Faults lengthen D: during a disruption, all
// counts accepted since it began are recent. A region may exceed the limit by counts in flight
// between its nodes; the regional bound covers those.
//
// This holds also after any process was killed and for tuples that were evicted, because the bridge
// publishes the counts at the origin. Only counts that never reached it, or that it lost together
// with their process, are excused.
//
// A relaxed request is decided by counts of the siblings that are up to a freshness interval old,
// which may be longer than 2 D. So what its process did not know of its own region is in flight
// there, and left to the regional bound, too.
//
// If regions use different limits, a region with the smaller one is protected from the others only
// once they know of it: two delays after its first row.

#include <algorithm>
#include <map>

#include "base/wide.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"
#include "sim/checkers/publish_spec.h"

namespace weir::sim {
namespace {

class GlobalBound final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "the global bound"; }

  Violation after_commit(const GlobalView& view, const Committed& committed) override {
    for (const LedgerRow& row : committed.rows) {
      first_row_.emplace(RowId{cell_of(row), row.region}, view.now.mono);
    }
    return {};
  }

  Violation after_answer(const GlobalView& view, int region, const RequestRecord& record) override {
    Count& largest = limits_[{region, record.tuple}];
    largest = std::max(largest, record.limit);
    if (!record.charged || view.budget_limited || view.failed_over || view.no_room) return {};
    if (view.rejected.count(record.tuple) > 0) return {};

    const CellId cell = record.cell();
    const Count accepted = view.accepted(cell);
    const Count bound = bound_of(view, region, record) + recent(view, cell) + lost(view, cell) +
                        unknown_siblings(view, region, record);
    if (accepted <= bound) return {};
    return "all regions have accepted " + std::to_string(accepted) + " of " +
           std::to_string(record.limit) + " in window " + std::to_string(cell.sequence) +
           ", at most " + std::to_string(bound) + " can be explained, " +
           std::to_string(recent(view, cell)) + " as recent";
  }

 private:
  Count bound_of(const GlobalView& view, int region, const RequestRecord& record) {
    const SyncRules& rules = view.ledger.rules();
    const CellId cell = record.cell();
    const auto acked = first_row_.find({cell, view.regions[static_cast<size_t>(region)].name});
    const bool known =
        acked != first_row_.end() && view.now.mono - acked->second > 2 * view.delays.total();
    Count largest = record.limit;
    Count hidden = 0;
    Count alone = 0;
    for (size_t i = 0; i < view.regions.size(); ++i) {
      const Count limit = limits_[{static_cast<int>(i), record.tuple}];
      largest = std::max(largest, limit);
      const Count there = view.regions[i].oracle.accepted(cell);
      if (there > limit) alone += there - limit;
      if (static_cast<int>(i) == region || limit == 0) continue;
      hidden += spec::max_unpublished(known ? std::min(limit, record.limit) : limit, rules,
                                      view.regions.size()) -
                1;
    }
    const Count limit = known ? record.limit : largest;
    return limit + spec::slack_of(limit, rules) + hidden + alone;
  }

  // Counts of siblings that the process of a relaxed request did not know.
  static Count unknown_siblings(const GlobalView& view, int region, const RequestRecord& record) {
    if (!record.relaxed) return 0;
    const Oracle& oracle = view.regions[static_cast<size_t>(region)].oracle;
    const CellId cell = record.cell();
    const Count known =
        oracle.accepted_by(record.contributor, cell) + record.verdict.evidence.siblings;
    return base::saturating_sub(oracle.accepted(cell), known);
  }

  // The counts that no region can publish any more.
  static Count lost(const GlobalView& view, const CellId& cell) {
    Count sum = 0;
    for (const RegionState& region : view.regions) {
      if (region.has_origin) {
        const MissingCounts missing = missing_counts(view.of(region), cell);
        sum += missing.died_unacked + missing.lost_with_origin;
        continue;
      }
      for (const auto& [contributor, accepted] : region.oracle.contributors(cell)) {
        if (region.oracle.process(contributor.process).ended) sum += accepted;
      }
    }
    return sum;
  }

  static Count recent(const GlobalView& view, const CellId& cell) {
    MonoTime from = view.now.mono;
    if (view.disrupted_since) from = std::min(from, *view.disrupted_since);
    from -= 2 * view.delays.total();
    Count sum = 0;
    for (const RegionState& region : view.regions) {
      const std::vector<Accept>& accepts = region.oracle.accepts(cell);
      for (auto it = accepts.rbegin(); it != accepts.rend() && it->when >= from; ++it) {
        sum += it->cost;
      }
    }
    return sum;
  }

  std::map<std::pair<int, std::string>, Count> limits_;  // the largest requested in a region
  std::map<RowId, MonoTime> first_row_;
};

}  // namespace

std::unique_ptr<GlobalChecker> make_global_bound() {
  return std::make_unique<GlobalBound>();
}

}  // namespace weir::sim
