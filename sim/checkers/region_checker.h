// A checker of one region. One file and one invariant each; docs/simulation.md lists them.
//
// A checker, of one region or of all, checks relaxed requests like all others unless the comment at
// the top of its file says otherwise.

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
#include "sim/stores/origin_history.h"
#include "sim/stores/row_id.h"

namespace weir::sim {

// The state of one node at one instant.
struct NodeView {
  int node = 0;
  int process = -1;  // none while no process runs
  uint64_t incarnation = 0;
  Instant now{};      // by its own clock
  WallTime latest{};  // that its clock has shown
  std::vector<decide::CellView> cells;
  std::map<uint64_t, MonoTime> created;  // when each generation of these was first seen
  std::map<std::pair<uint64_t, int64_t>, Count> most_own;  // seen of a generation in a window
  WorkReport last_replay{};
  MonoTime paused_until{};  // at the last pause
  int in_flight = 0;        // requests that wait for the origin
  bool reachable = true;    // if not, it knows that the origin refuses calls, or it is paused
  bool touched = true;      // by the last event; if not, its cells are unchanged
  // As the publish rule sees them; as of the last audit.
  std::vector<global::SharedCell> shared;
  std::vector<global::SharedCell> unrecorded;  // the same of tuples that no record names
  SyncStats sync{};
  Nanos replay_lag{0};  // how long the oldest count, or news of a region, waits to be replayed

  [[nodiscard]] bool runs() const { return process >= 0; }
  // The generation of a tuple in its table; 0 if the tuple is not there.
  [[nodiscard]] uint64_t generation_of(const std::string& tuple) const {
    for (const decide::CellView& cell : cells) {
      if (cell.tuple == tuple) return cell.generation;
    }
    return 0;
  }
  [[nodiscard]] const decide::CellView* find(const CellId& cell) const {
    for (const decide::CellView& each : cells) {
      if (each.tuple == cell.tuple && each.sequence == cell.sequence) return &each;
    }
    return nullptr;
  }
  [[nodiscard]] Count own_of(const CellId& cell) const {
    const decide::CellView* const found = find(cell);
    return found == nullptr ? 0 : found->own;
  }
  // Whether the present tuple was created after the request was sent.
  [[nodiscard]] bool has_younger_tuple_than(const RequestRecord& record) const {
    const auto age = created.find(record.contributor.generation);
    return age != created.end() && age->second > record.requested_at.mono;
  }
  // Whether the charge seems to be of a former tuple: the present one is younger than the request,
  // and knows less of siblings, or also what the former one counted, or has never counted as much.
  [[nodiscard]] bool may_replace_tuple_of(const RequestRecord& record) const {
    if (!has_younger_tuple_than(record)) return false;
    const decide::CellView* const found = find(record.cell());
    const Count siblings = found == nullptr ? 0 : found->siblings;
    const auto most = most_own.find({record.contributor.generation, record.cell().sequence});
    const Evidence& evidence = record.verdict.evidence;
    return siblings < evidence.siblings ||
           siblings >= evidence.siblings + evidence.own + record.cost ||
           (most != most_own.end() && most->second < evidence.own + record.cost);
  }
};

// Messages at the node's end of a link.
struct SentReplay {
  int process = 0;
  uint64_t message = 0;
  const std::vector<CellReplay>& cells;
  bool by_step = false;  // a step told the counts: no substitute for a replay
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

// A call that waited for the origin or was decided at once.
struct FinishedWait {
  int node = 0;
  MonoTime began{};
  MonoTime ended{};
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
  std::optional<MonoTime> jumped_at{};   // the last jump of all clocks
  bool has_ledger = false;  // through which a region may read the counts of its ended processes
};

// The cost that a region has admitted to a client whose settings have changed meanwhile.
struct ChangedUse {
  std::string client;
  std::string settings;  // all of them, in order
  Count limit = 0;
  Count admitted = 0;
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
  virtual Violation after_changes(const RegionView&, const ChangedUse&) { return {}; }
  virtual Violation after_event(const RegionView&) { return {}; }
  virtual Violation after_write(const RegionView&, const OriginWrite&) { return {}; }
  // Messages that a process sends to the origin, and replies that reach it.
  virtual Violation after_sent(const RegionView&, const SentReplay&) { return {}; }
  virtual Violation after_received(const RegionView&, const ReceivedReplay&) { return {}; }
  virtual Violation after_received(const RegionView&, const ReceivedRead&) { return {}; }
  virtual Violation after_wait(const RegionView&, const FinishedWait&) { return {}; }
  virtual Violation after_reconnect(const RegionView&, int /*life*/) { return {}; }
  virtual Violation at_end(const RegionView&) { return {}; }
};

[[nodiscard]] std::vector<std::unique_ptr<RegionChecker>> all_region_checkers();
// Those that hold for a region whose only process has no origin.
[[nodiscard]] std::vector<std::unique_ptr<RegionChecker>> region_checkers_without_origin();

}  // namespace weir::sim
