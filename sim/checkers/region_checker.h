// A checker watches the world and says what is broken. One file each, one invariant each;
// docs/simulation.md lists them.

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "limiter/engine.h"
#include "sim/checkers/oracle.h"
#include "sim/stores/row_id.h"
#include "sim/stores/simulated_origin.h"

namespace weir::sim {

// What of the ledger has reached a process, whatever it made of it.
struct ImportLog {
  struct Row {
    Count count = 0;
    MonoTime since{};  // when it rose to that
    Count limit = 0;   // the smallest; 0: none
  };
  // Two turns of a process: by then it has taken in what reached it.
  static constexpr Millis kMergeDelay{30};
  std::map<RowId, Row> rows;
  std::map<std::pair<std::string, std::string>, WallTime> present;  // tuple, region: until when

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
  int process = -1;  // none while nothing runs there
  uint64_t incarnation = 0;
  Instant now{};      // by its own clock
  WallTime latest{};  // its clock has ever shown
  std::vector<limiter::CellView> cells;
  WorkReport last_replay{};
  bool reachable = true;  // if not, it knows that it would ask the origin in vain
  bool touched = true;    // by the last event; if not, its cells are as they were
  // As other regions are told of them; as of the last audit.
  std::vector<limiter::SharedCell> shared;
  SyncStats sync{};
  std::shared_ptr<const ImportLog> received;  // none: there is no ledger, or nothing runs

  [[nodiscard]] bool runs() const { return process >= 0; }
  // The generation of a tuple that it holds; 0 if it does not.
  [[nodiscard]] uint64_t generation_of(const std::string& tuple) const {
    for (const limiter::CellView& cell : cells) {
      if (cell.tuple == tuple) return cell.generation;
    }
    return 0;
  }
};

// What a component was from one moment to the next entry's.
struct ComponentValue {
  MonoTime since{};
  Count count = 0;
  Count max_before = 0;  // it had been this much already
};

// One write as it met the origin.
struct OriginWrite {
  int process = 0;
  const CellReplay& replay;
  const Components& before;
  const Components& after;
};

// What the origin was told and had, from a place where messages cannot hide.
class OriginHistory {
 public:
  virtual ~OriginHistory() = default;
  // The least that all components of a cell but one amounted to at any time since; a read
  // since then has seen at least this.
  [[nodiscard]] virtual Count least_others_since(const CellId& cell, const Component& excluded,
                                                 MonoTime since) const = 0;
  [[nodiscard]] virtual Components components(const CellId& cell) const = 0;
  // In order; before the first entry it was 0.
  [[nodiscard]] virtual const std::vector<ComponentValue>& component_history(
      const CellId& cell, const Component& component) const = 0;
};

// Messages at the near end of a link.
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

// What was promised to everyone in this world.
struct Guarantees {
  Millis max_freshness{0};
  Millis read_deadline{0};
  OnOriginLoss on_origin_loss = OnOriginLoss::kLocal;
  bool evicts = false;       // tuples make room for others, and what they accepted is remembered
  Millis acked_within{0};    // replay_within, and two turns of the schedule
  Millis probed_within{0};   // every node, for every tuple, once it is calm
  Millis max_clock_skew{0};  // any two readings of wall time at one instant, or of one node's
                             // clock before and after it was set
};

struct RegionView {
  const Oracle& oracle;
  const OriginHistory& origin;
  const std::vector<NodeView>& nodes;
  Instant now{};
  Guarantees guarantees{};
  std::optional<MonoTime> calm_since{};  // nothing goes wrong from then on
  bool has_ledger = false;               // through which a region may hear of its own dead
};

// Each method returns what is wrong, if anything is.
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
  // What leaves a process for the origin, and what reaches it from there.
  virtual Violation after_sent(const RegionView&, const SentReplay&) { return {}; }
  virtual Violation after_received(const RegionView&, const ReceivedReplay&) { return {}; }
  virtual Violation after_received(const RegionView&, const ReceivedRead&) { return {}; }
  virtual Violation after_reconnect(const RegionView&, int /*life*/) { return {}; }
  virtual Violation at_end(const RegionView&) { return {}; }
};

[[nodiscard]] std::vector<std::unique_ptr<RegionChecker>> all_region_checkers();

}  // namespace weir::sim
