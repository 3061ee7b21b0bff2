// Tuples that must be published are in the due set.
//
// Without faults: if a rule of publish_spec.h holds for a cell by the data at the origin, the tuple
// is in the due set, or the count is in the ledger, within one delay. No process need hold the
// tuple: the one that counted it may have evicted it or died, and the bridge evaluates the rule
// when it imports a count of another region. A process whose tuple the bridge found not due asks
// again a while later.
//
// The data at the origin: the components and limits of both windows, and the counts and leases of
// other regions (other checkers test those).

#include <algorithm>
#include <map>
#include <utility>

#include "global/shared_tuples.h"
#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"
#include "sim/checkers/publish_spec.h"
#include "sim/checkers/requested_limits.h"

namespace weir::sim {
namespace {

class PublishRule final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "publish rule"; }

  Violation after_answer(const GlobalView&, int region, const RequestRecord& record) override {
    record_requested(requested_, region, record);
    return {};
  }

  Violation at_audit(const GlobalView& view) override {
    if (view.disrupted_since || view.failed_over) {
      not_due_since_.clear();
      return {};
    }
    for (const auto& [key, requested] : requested_) {
      const auto& [region, tuple] = key;
      if (!view.regions[static_cast<size_t>(region)].has_origin) continue;
      // The ledger rejected it as invalid: it counts as published.
      if (view.rejected.count(tuple) > 0) continue;
      if (auto violation = check(view, region, tuple, requested)) return violation;
    }
    return {};
  }

 private:
  using RegionCell = std::pair<int, CellId>;

  Violation check(const GlobalView& view, int index, const std::string& tuple,
                  const RequestedLimit& requested) {
    const RegionState& region = view.regions[static_cast<size_t>(index)];
    const SyncRules& rules = view.ledger.rules();
    const BridgeData& bridge = region.origin.bridge();
    const int64_t current = view.now.wall.time_since_epoch() / requested.duration;
    const CellId cell{tuple, current};
    const CellId last{tuple, current - 1};
    if (any_had_wrong_clock(region.oracle, cell) || any_had_wrong_clock(region.oracle, last)) {
      return {};
    }
    const spec::Cell known = known_of(view, region, cell, requested, current);
    const WallTime leased = view.history.leased_until(tuple, region.name, view.now.mono);
    std::string rule;
    const Nanos patience = view.delays.total() + Nanos(view.guarantees.max_clock_skew);
    Nanos asks_again{0};
    if (!covers(leased, current, requested.duration) && !view.budget_limited &&
        !view.jumped_lately && spec::presence_due(known, rules, view.regions.size())) {
      rule = "presence";
    } else if (!view.budget_limited && spec::contended(known, rules)) {
      rule = "contended";
      if (waits(region, cell, requested)) asks_again = global::SharedWindow::kDueRetry;
    }
    const bool now_due = bridge.due(tuple, Due::kNow) || bridge.due(tuple, Due::kRule);
    auto violation =
        check_due(view, index, cell, known, now_due ? "" : rule, patience + asks_again);
    if (violation) return violation;
    const spec::Cell over = known_of(view, region, last, requested, current);
    const auto end_due = bridge.due(tuple, Due::kWindowEnd);
    const bool due = now_due || (end_due && *end_due <= view.now.wall);
    const bool holds = !view.budget_limited && spec::rolled_over(over, rules);
    return check_due(view, index, last, over, holds && !due ? "roll-over" : "", patience);
  }

  // Whether a process has asked the bridge to publish the cell. By the time of its read, the bridge
  // may have found that the last window had released enough.
  static bool waits(const RegionState& region, const CellId& cell,
                    const RequestedLimit& requested) {
    if (requested.algorithm != Algorithm::kSlidingWindow) return false;
    const auto asked = [&](const global::SharedCell& each) {
      return each.waits && each.tuple == cell.tuple && each.sequence == cell.sequence;
    };
    return std::any_of(region.nodes.begin(), region.nodes.end(), [&](const NodeView& node) {
      return node.runs() && std::any_of(node.shared.begin(), node.shared.end(), asked);
    });
  }

  // A cell by the data at the origin, in the current window.
  static spec::Cell known_of(const GlobalView& view, const RegionState& region, const CellId& cell,
                             const RequestedLimit& requested, int64_t current) {
    const RegionCounts* const counts = region.origin.bridge().counts_at(cell.tuple, view.now.mono);
    const CellId before{cell.tuple, cell.sequence - 1};
    // What a step granted to a batch that was denied need not be published.
    const Count granted = unanswered_grants(region.oracle, region.origin, cell);
    spec::Cell known{.x = region.origin.total(cell) - std::min(granted, region.origin.total(cell)),
                     .p = view.ledger.max_committed({cell, region.name}),
                     .L = requested.smallest};
    Count used = known.x;
    Count used_before = region.origin.total(before);
    for (const RegionState& other : view.regions) {
      if (counts == nullptr || other.name == region.name) continue;
      const auto count_in = [&](int64_t sequence) {
        const RegionCount* const found = counts->find(other.name, sequence);
        return found == nullptr ? RegionCount{} : *found;
      };
      const Count count = count_in(cell.sequence).count;
      used += count;
      used_before += count_in(before.sequence).count;
      if (count > 0 ||
          covers(counts->leased_until(other.name), cell.sequence, requested.duration)) {
        ++known.k;
      }
      for (const int64_t sequence : {current, current - 1}) {
        const Count limit = count_in(sequence).limit_seen;
        if (limit > 0) known.L = std::min(known.L, limit);
      }
    }
    const WallTime latest = view.now.wall + view.guarantees.max_clock_skew;
    known.e = usage_at(latest, requested, cell.sequence, used, used_before);
    return known;
  }

  // Empty: no rule holds, or the tuple is due.
  Violation check_due(const GlobalView& view, int region, const CellId& cell,
                      const spec::Cell& known, const std::string& rule, Nanos patience) {
    const RegionCell key{region, cell};
    if (rule.empty()) {
      not_due_since_.erase(key);
      return {};
    }
    const auto since = not_due_since_.emplace(key, view.now.mono).first;
    if (view.now.mono - since->second <= patience) return {};
    return rule + " holds in region " + std::to_string(region) + " for window " +
           std::to_string(cell.sequence) + ", but the tuple is not due: counted " +
           std::to_string(known.x) + " of " + std::to_string(known.L) + ", published " +
           std::to_string(known.p) + ", used " + std::to_string(known.e) + " in " +
           std::to_string(known.k) + " regions";
  }

  RequestedLimits requested_;
  std::map<RegionCell, MonoTime> not_due_since_;
};

}  // namespace

std::unique_ptr<GlobalChecker> make_publish_rule() {
  return std::make_unique<PublishRule>();
}

}  // namespace weir::sim
