// A checker that watches all regions at once, and the ledger between them. One file each, one
// invariant each; docs/simulation.md lists them.

#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/checker.h"
#include "sim/ledger_history.h"
#include "sim/watched_ledger.h"

namespace weir::sim {

struct RegionView {
  const std::string& name;
  const Truth& truth;
  const OriginHistory& origin;
  const std::vector<NodeView>& nodes;
};

// How long something takes at most where nothing goes wrong.
struct Delays {
  Nanos publish{0};  // from an accept until the ledger has it, if the rule wants that
  Nanos import{0};   // from a commit until every process uses it
  [[nodiscard]] Nanos all() const { return publish + import; }
};

struct FleetView {
  const std::vector<RegionView>& regions;
  const WatchedLedger& ledger;
  const LedgerHistory& history;
  Instant now{};
  Promises promises{};
  Delays delays{};
  // While something went wrong, or what it left is not over: when that began.
  std::optional<MonoTime> troubled_since{};
  const std::set<std::string>& blamed;  // tuples of which the ledger refused a row
  bool fair = false;                    // nothing ever goes wrong
  bool scarce = false;                  // rows may have to wait for the budget
  bool failed_over = false;             // the ledger lost rows at some time
  bool leapt_lately = false;            // clocks: regions have yet to say again that they are there
  bool no_room = false;                 // for rows of others, at some time in some process
  std::optional<MonoTime> calm_since{};

  [[nodiscard]] Count accepted(const CellId& cell) const {
    Count sum = 0;
    for (const RegionView& region : regions) sum += region.truth.accepted(cell);
    return sum;
  }
};

// Each method returns what is wrong, if anything is.
class FleetChecker {
 public:
  using Fault = Checker::Fault;
  virtual ~FleetChecker() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  virtual Fault after_answer(const FleetView&, int /*region*/, const Answered&) { return {}; }
  virtual Fault after_event(const FleetView&) { return {}; }
  virtual Fault after_commit(const FleetView&, const Committed&) { return {}; }
  // Now and then, when what the publish rule says of every cell was looked at.
  virtual Fault at_audit(const FleetView&) { return {}; }
  virtual Fault at_end(const FleetView&) { return {}; }
};

[[nodiscard]] std::vector<std::unique_ptr<FleetChecker>> all_fleet_checkers();

}  // namespace weir::sim
