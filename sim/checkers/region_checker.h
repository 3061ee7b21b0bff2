// A checker of one region. One file and one invariant each; docs/simulation.md lists them.

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decide/engine.h"
#include "sim/checkers/oracle.h"
#include "sim/stores/bridge_data.h"
#include "sim/stores/row_id.h"
#include "sim/stores/simulated_origin.h"

namespace weir::sim {

// Rows and presences of the ledger that have reached a process.
struct ImportLog {
  struct Row {
    Count count = 0;
    MonoTime since{};  // when the count rose to this
    Count limit = 0;   // the smallest; 0: none
  };
  // Two iterations: by then a process has merged what it received.
  static constexpr Millis kMergeDelay{30};
  std::map<RowId, Row> rows;
  std::map<std::pair<std::string, std::string>, WallTime>
      present;  // tuple, region -> end of the presence

  [[nodiscard]] Row row(const RowId& id) const {
    const auto found = rows.find(id);
    return found == rows.end() ? Row{} : found->second;
  }
  [[nodiscard]] WallTime present_until(const std::string& tuple, const std::string& region) const {
    const auto found = present.find({tuple, region});
    return found == present.end() ? WallTime{} : found->second;
  }
};

// The state of one node at one instant.
struct NodeView {
  int node = 0;
  int process = -1;  // none while no process runs
  uint64_t incarnation = 0;
  Instant now{};      // by its own clock
  WallTime latest{};  // that its clock has shown
  std::vector<decide::CellView> cells;
  WorkReport last_replay{};
  bool reachable = true;  // if not, it knows that the origin refuses calls
  bool touched = true;    // by the last event; if not, its cells are unchanged
  // As the publish rule sees them; as of the last audit.
  std::vector<global::SharedCell> shared;
  SyncStats sync{};
  std::shared_ptr<const ImportLog> received;  // none: there is no ledger, or no process runs

  [[nodiscard]] bool runs() const { return process >= 0; }
  // The generation of a tuple in its table; 0 if the tuple is not there.
  [[nodiscard]] uint64_t generation_of(const std::string& tuple) const {
    for (const decide::CellView& cell : cells) {
      if (cell.tuple == tuple) return cell.generation;
    }
    return 0;
  }
};

// The count of a component from this time to that of the next entry.
struct ComponentValue {
  MonoTime since{};
  Count count = 0;
  Count max_before = 0;  // the largest earlier count
};

// One write, as the origin applied it.
struct OriginWrite {
  int process = 0;
  const CellReplay& replay;
  const Components& before;
  const Components& after;
};

// The state of the origin over time, recorded in the origin itself.
class OriginHistory {
 public:
  virtual ~OriginHistory() = default;
  // The smallest sum of all components of a cell but one, at any time since then. A read since then
  // has seen at least this.
  [[nodiscard]] virtual Count least_others_since(const CellId& cell, const Component& excluded,
                                                 MonoTime since) const = 0;
  [[nodiscard]] virtual Components components(const CellId& cell) const = 0;
  // The sum of all components.
  [[nodiscard]] virtual Count total(const CellId& cell) const = 0;
  // What the region keeps at the origin to share its counts with other regions.
  [[nodiscard]] virtual const BridgeData& bridge() const = 0;
  // In order; before the first entry it was 0.
  [[nodiscard]] virtual const std::vector<ComponentValue>& component_history(
      const CellId& cell, const Component& component) const = 0;
};

// Messages at the node's end of a link.
struct SentReplay {
  int process = 0;
  uint64_t message = 0;
  const std::vector<CellReplay>& cells;
};
struct ReceivedReplay {
  SentReplay sent;
  const Result<std::vector<CellTotals>>& totals;
};
struct ReceivedRead {
  int process = 0;
  const std::vector<CellRead>& cells;
  const Result<std::vector<CellTotals>>& totals;
};

// The settings and bounds that hold in the whole simulation.
struct Guarantees {
  Millis max_freshness{0};
  Millis read_deadline{0};
  OnOriginLoss on_origin_loss = OnOriginLoss::kLocal;
  bool evicts = false;       // tables evict tuples; their accepted counts remain known
  Millis acked_within{0};    // replay_within, and two iterations
  Millis probed_within{0};   // every node, for every tuple, after faults have ended
  Millis max_clock_skew{0};  // between two clocks, or of one clock when it is set
};

struct RegionView {
  const Oracle& oracle;
  const OriginHistory& origin;
  const std::vector<NodeView>& nodes;
  Instant now{};
  Guarantees guarantees{};
  std::optional<MonoTime> calm_since{};  // no fault has any effect from then on
  bool has_ledger = false;  // through which a region may read the counts of its ended processes
};

// Each method returns the violation, if there is one.
class RegionChecker {
 public:
  using Violation = std::optional<std::string>;
  virtual ~RegionChecker() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  virtual Violation after_answer(const RegionView&, const RequestRecord&) { return {}; }
  // The same for algorithms that each process counts by itself.
  virtual Violation after_local_answer(const RegionView&, const RequestRecord&) { return {}; }
  virtual Violation after_event(const RegionView&) { return {}; }
  virtual Violation after_write(const RegionView&, const OriginWrite&) { return {}; }
  // Messages that a process sends to the origin, and replies that reach it.
  virtual Violation after_sent(const RegionView&, const SentReplay&) { return {}; }
  virtual Violation after_received(const RegionView&, const ReceivedReplay&) { return {}; }
  virtual Violation after_received(const RegionView&, const ReceivedRead&) { return {}; }
  virtual Violation after_reconnect(const RegionView&, int /*life*/) { return {}; }
  virtual Violation at_end(const RegionView&) { return {}; }
};

[[nodiscard]] std::vector<std::unique_ptr<RegionChecker>> all_region_checkers();

}  // namespace weir::sim
