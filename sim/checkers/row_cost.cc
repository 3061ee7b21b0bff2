// Publishing is cheap: without faults, a cell costs at most
//
//   k (2 + ln((1 + slack) / slack))
//
// rows, with k the number of regions. In addition a region may write a row for each lease that
// begins in the window, and one for the first denial in each of its processes. If the limit is so
// small that the slack is almost nothing, each row carries at least one unit, and the sum may reach
// the limit; such cells are not checked.

#include <cmath>
#include <map>

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
    for (const LedgerRow& row : committed.rows) {
      const CellId cell = cell_of(row);
      if (spec::slack_of(tuples_[cell.tuple].limit, view.ledger.rules()) < kSmallestSlack) continue;
      if (auto violation = check(view, cell, ++rows_[cell])) return violation;
    }
    return {};
  }

 private:
  struct Tuple {
    Count limit = 0;  // 0: regions have different limits
    bool sliding = false;
  };

  Violation check(const GlobalView& view, const CellId& cell, uint64_t rows) {
    const SyncRules& rules = view.ledger.rules();
    const double slack = rules.slack_permille / 1000.0;
    double most = static_cast<double>(view.regions.size()) * (2 + std::log((1 + slack) / slack));
    const auto leases = static_cast<double>(1 + duration_of(cell) / rules.lease);
    for (const RegionState& region : view.regions) {
      most += static_cast<double>(region.nodes.size() - 1) + leases;
    }
    most += rows_for_released_usage(view, cell);
    if (static_cast<double>(rows) <= most) return {};
    return std::to_string(rows) + " rows for window " + std::to_string(cell.sequence) + " in " +
           std::to_string(view.regions.size()) + " regions";
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

  std::map<CellId, uint64_t> rows_;
  std::map<std::string, Tuple> tuples_;
};

}  // namespace

std::unique_ptr<GlobalChecker> make_row_cost() {
  return std::make_unique<RowCost>();
}

}  // namespace weir::sim
