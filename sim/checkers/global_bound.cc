// The global bound: at each accept, what all regions together have accepted in the cell is at most
//
//   (1 + slack) L + sum over the other regions of (hidden - 1)
//                 + what was accepted anywhere in the last 2 D,
//
// with D the longest time from an accept in one region to its use in all others (see
// World::delays). Whatever went wrong since lengthens D: while there is trouble, all that was
// accepted since it began is recent. What a region by itself accepted beyond the limit is what was
// in flight between its nodes; the regional bound sees to that, and so to at most the limit and
// that much for each region, whatever happens.
//
// Where regions ask with different limits, one that goes by the smaller is safe from the others
// only once they know of it: two delays after its first row.

#include <algorithm>
#include <map>

#include "sim/checkers/makers.h"
#include "sim/checkers/publish_spec.h"

namespace weir::sim {
namespace {

class GlobalBound final : public FleetChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "the global bound"; }

  Fault after_commit(const FleetView& all, const Committed& committed) override {
    for (const LedgerRow& row : committed.news.rows) {
      first_row_.emplace(RowPlace{cell_of(row), row.region}, all.now.mono);
    }
    return {};
  }

  Fault after_answer(const FleetView& all, int region, const Answered& answered) override {
    Count& largest = limits_[{region, answered.tuple}];
    largest = std::max(largest, answered.limit);
    if (!answered.charged || all.scarce || all.failed_over || all.no_room) return {};
    // What makes room for others is hidden whole; the exported bound says so.
    if (all.blamed.count(answered.tuple) > 0 || all.promises.forgets) return {};

    const CellId cell = answered.cell();
    const Count accepted = all.accepted(cell);
    const Count bound = bound_of(all, region, answered) + recent(all, cell);
    if (accepted <= bound) return {};
    return "all regions have accepted " + std::to_string(accepted) + " of " +
           std::to_string(answered.limit) + " in window " + std::to_string(cell.sequence) +
           ", at most " + std::to_string(bound) + " can be explained, " +
           std::to_string(recent(all, cell)) + " as recent";
  }

 private:
  Count bound_of(const FleetView& all, int region, const Answered& answered) {
    const SyncRules& rules = all.ledger.rules();
    const CellId cell = answered.cell();
    const auto acked = first_row_.find({cell, all.regions[static_cast<size_t>(region)].name});
    const bool known =
        acked != first_row_.end() && all.now.mono - acked->second > 2 * all.delays.all();
    Count largest = answered.limit;
    Count hidden = 0;
    Count alone = 0;
    for (size_t i = 0; i < all.regions.size(); ++i) {
      const Count limit = limits_[{static_cast<int>(i), answered.tuple}];
      largest = std::max(largest, limit);
      const Count there = all.regions[i].truth.accepted(cell);
      if (there > limit) alone += there - limit;
      if (static_cast<int>(i) == region || limit == 0) continue;
      hidden += spec::may_hide(known ? std::min(limit, answered.limit) : limit, rules,
                               all.regions.size()) -
                1;
    }
    const Count limit = known ? answered.limit : largest;
    return limit + spec::slack_of(limit, rules) + hidden + alone;
  }

  static Count recent(const FleetView& all, const CellId& cell) {
    MonoTime from = all.now.mono;
    if (all.troubled_since) from = std::min(from, *all.troubled_since);
    from -= 2 * all.delays.all();
    Count sum = 0;
    for (const RegionView& region : all.regions) {
      const std::vector<Accept>& accepts = region.truth.accepts(cell);
      for (auto it = accepts.rbegin(); it != accepts.rend() && it->when >= from; ++it) {
        sum += it->cost;
      }
    }
    return sum;
  }

  std::map<std::pair<int, std::string>, Count> limits_;  // the largest asked in a region
  std::map<RowPlace, MonoTime> first_row_;
};

}  // namespace

std::unique_ptr<FleetChecker> make_global_bound() {
  return std::make_unique<GlobalBound>();
}

}  // namespace weir::sim
