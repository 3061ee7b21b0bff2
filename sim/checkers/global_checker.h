// A checker of all regions and the ledger between them. One file and one invariant each;
// docs/simulation.md lists them.

#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/checkers/delays.h"
#include "sim/checkers/region_checker.h"
#include "sim/stores/ledger_history.h"
#include "sim/stores/watched_ledger.h"

namespace weir::sim {

struct RegionState {
  const std::string& name;
  const Oracle& oracle;
  const OriginHistory& origin;
  const std::vector<NodeView>& nodes;
  bool has_origin = true;  // if not, its only process counts in memory
};

struct GlobalView {
  const std::vector<RegionState>& regions;
  const WatchedLedger& ledger;
  const LedgerHistory& history;
  Instant now{};
  Guarantees guarantees{};
  Delays delays{};
  // During a disruption and its recovery: when it began.
  std::optional<MonoTime> disrupted_since{};
  const std::set<std::string>& rejected;  // tuples of which the ledger rejected a row
  bool fault_free = false;                // no fault is ever injected
  bool budget_limited = false;            // rows may have to wait for the budget
  bool failed_over = false;               // the ledger lost rows at some time
  bool jumped_lately = false;             // all clocks: regions have yet to renew their leases
  bool no_room = false;                   // for remote rows, at some time in some process
  std::optional<MonoTime> calm_since{};

  [[nodiscard]] Count accepted(const CellId& cell) const {
    Count sum = 0;
    for (const RegionState& region : regions) sum += region.oracle.accepted(cell);
    return sum;
  }
  [[nodiscard]] RegionView of(const RegionState& region) const {
    return {.oracle = region.oracle,
            .origin = region.origin,
            .nodes = region.nodes,
            .now = now,
            .guarantees = guarantees,
            .calm_since = calm_since,
            .has_ledger = true};
  }
};

// Each method returns the violation, if there is one.
class GlobalChecker {
 public:
  using Violation = RegionChecker::Violation;
  virtual ~GlobalChecker() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  virtual Violation after_answer(const GlobalView&, int /*region*/, const RequestRecord&) {
    return {};
  }
  // The same for algorithms whose counts are not merged.
  virtual Violation after_local_answer(const GlobalView&, int /*region*/, const RequestRecord&) {
    return {};
  }
  virtual Violation after_event(const GlobalView&) { return {}; }
  virtual Violation after_commit(const GlobalView&, const Committed&) { return {}; }
  // Periodically, with the publish rule's state of every cell.
  virtual Violation at_audit(const GlobalView&) { return {}; }
  virtual Violation at_end(const GlobalView&) { return {}; }
};

[[nodiscard]] std::vector<std::unique_ptr<GlobalChecker>> all_global_checkers();

}  // namespace weir::sim
