// Publishing is cheap: without faults, a cell costs at most
//
//   k (2 + ln((1 + slack)
// slack))
//
// rows, with k the number of regions. In addition each process may write a presence once per lease,
// and a denial unless it has read a sibling's. If the limit is so small that the slack is almost
// nothing, each row carries at least one unit, and the sum may reach the limit; such cells are not
// checked.

#include <cmath>
#include <map>
#include <set>

#include "sim/checkers/makers.h"
#include "sim/checkers/missing_counts.h"
#include "sim/checkers/publish_spec.h"

namespace weir::sim {
namespace {

constexpr Count kSmallestSlack = 10;

class RowCost final : public GlobalChecker {
 public:
  [[nodiscard]] std::string_view name() const override { return "row cost"; }

  Violation after_answer(const GlobalView&, int /*region*/, const RequestRecord& record) override {
    const bool sliding = record.algorithm == Algorithm::kSlidingWindow;
    const auto known =
        tuples_.emplace(record.tuple, Tuple{.limit = record.limit, .sliding = sliding}).first;
    // A region that exceeds the limit of another publishes each slack of it.
    if (known->second.limit != record.limit) known->second.limit = 0;
    return {};
  }

  Violation after_commit(const GlobalView& view, const Committed& committed) override {
    if (!view.fault_free) return {};
    std::set<std::string> here;
    for (const LedgerPresence& presence : committed.news.presences) {
      here.insert(tuple_of(presence.key));
    }
    for (const LedgerRow& row : committed.news.rows) {
      const CellId cell = cell_of(row);
      if (spec::slack_of(tuples_[cell.tuple].limit, view.ledger.rules()) < kSmallestSlack) continue;
      Cost& cost = costs_[cell];
      if (here.count(cell.tuple) > 0) {
        ++cost.presences[row.region];
      } else {
        ++cost.rows;
      }
      if (auto violation = check(view, cell, cost)) return violation;
    }
    return {};
  }

 private:
  struct Tuple {
    Count limit = 0;  // 0: regions have different limits
    bool sliding = false;
  };
  struct Cost {
    uint64_t rows = 0;
    std::map<std::string, uint64_t> presences;
  };

  Violation check(const GlobalView& view, const CellId& cell, const Cost& cost) {
    const SyncRules& rules = view.ledger.rules();
    const double slack = rules.slack_permille / 1000.0;
    double most = static_cast<double>(view.regions.size()) * (2 + std::log((1 + slack) / slack));
    for (const RegionState& region : view.regions) {
      most += static_cast<double>(region.nodes.size() - 1);
    }
    most += rows_for_released_usage(view, cell);
    if (static_cast<double>(cost.rows) > most) {
      return std::to_string(cost.rows) + " rows for window " + std::to_string(cell.sequence) +
             " in " + std::to_string(view.regions.size()) + " regions";
    }
    const auto leases = 1 + 2 * duration_of(cell) / (rules.lease - Millis(5000));
    for (const RegionState& region : view.regions) {
      const auto found = cost.presences.find(region.name);
      if (found == cost.presences.end()) continue;
      if (found->second <= static_cast<uint64_t>(leases + 1) * region.nodes.size()) continue;
      return region.name + " announced its presence " + std::to_string(found->second) +
             " times in one window";
    }
    return {};
  }

  // A sliding window releases usage while the previous one decays; regions may use that again, and
  // each row carries at least slack / k.
  double rows_for_released_usage(const GlobalView& view, const CellId& cell) {
    const Tuple& tuple = tuples_[cell.tuple];
    if (!tuple.sliding) return 0;
    const Count released = view.accepted({cell.tuple, cell.sequence - 1});
    const Count slack = spec::slack_of(tuple.limit, view.ledger.rules());
    return static_cast<double>(view.regions.size() * released) / static_cast<double>(slack);
  }

  std::map<CellId, Cost> costs_;
  std::map<std::string, Tuple> tuples_;
};

}  // namespace

std::unique_ptr<GlobalChecker> make_row_cost() {
  return std::make_unique<RowCost>();
}

}  // namespace weir::sim
