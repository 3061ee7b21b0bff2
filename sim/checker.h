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

#include "decide/engine.h"
#include "sim/row_place.h"
#include "sim/truth.h"

namespace weir::sim {

// What of the ledger has reached a process, whatever it made of it.
struct Received {
  struct Row {
    Count count = 0;
    MonoTime since{};  // when it rose to that
    Count limit = 0;   // the smallest; 0: none
  };
  // Two turns of a process: by then it has taken in what reached it.
  static constexpr Millis kTakesIn{30};
  std::map<RowPlace, Row> rows;
  std::map<std::pair<std::string, std::string>, WallTime> present;  // tuple, region: until when

  [[nodiscard]] Row row(const RowPlace& place) const {
    const auto found = rows.find(place);
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
  int life = -1;  // none while nothing runs there
  uint64_t incarnation = 0;
  Instant now{};      // by its own clock
  WallTime latest{};  // its clock has ever shown
  std::vector<decide::CellView> cells;
  WorkReport last_replay{};
  bool reachable = true;  // if not, it knows that it would ask the origin in vain
  bool touched = true;    // by the last event; if not, its cells are as they were
  // As other regions are told of them; as of the last audit.
  std::vector<global::SharedCell> shared;
  SyncStats sync{};
  std::shared_ptr<const Received> received;  // none: there is no ledger, or nothing runs

  [[nodiscard]] bool runs() const { return life >= 0; }
  // The generation of a tuple that it holds; 0 if it does not.
  [[nodiscard]] uint64_t generation_of(const std::string& tuple) const {
    for (const decide::CellView& cell : cells) {
      if (cell.tuple == tuple) return cell.generation;
    }
    return 0;
  }
};

using Components = std::map<Component, Count>;

// What a component was from one moment to the next entry's.
struct Stood {
  MonoTime since{};
  Count count = 0;
  Count most_before = 0;  // it had been this much already
};

// One write as it met the origin.
struct Written {
  int life = 0;
  const CellReplay& acked;
  const Components& before;
  const Components& after;
};

// What the origin was told and had, from a place where messages cannot hide.
class OriginHistory {
 public:
  virtual ~OriginHistory() = default;
  // The least that all components of a cell but one amounted to at any time since; a read
  // since then has seen at least this.
  [[nodiscard]] virtual Count least_others_since(const CellId& cell, const Component& without,
                                                 MonoTime since) const = 0;
  [[nodiscard]] virtual Components components(const CellId& cell) const = 0;
  // In order; before the first entry it was 0.
  [[nodiscard]] virtual const std::vector<Stood>& stood(const CellId& cell,
                                                        const Component& component) const = 0;
};

// Messages at the near end of a link.
struct Sent {
  int life = 0;
  uint64_t message = 0;
  const std::vector<CellReplay>& cells;
};
struct ReceivedReplay {
  Sent sent;
  const Result<std::vector<CellTotals>>& totals;
};
struct ReceivedRead {
  int life = 0;
  const std::vector<CellRead>& cells;
  const Result<std::vector<CellTotals>>& totals;
};

// What was promised to everyone in this world.
struct Promises {
  Millis max_freshness{0};
  Millis read_deadline{0};
  OnOriginLoss on_origin_loss = OnOriginLoss::kLocal;
  bool forgets = false;    // tuples make room for others, and what they accepted is remembered
  Millis acked_within{0};  // replay_within, and two turns of the schedule
  Millis asked_within{0};  // every node, for every tuple, once it is calm
  Millis clocks_apart{0};  // any two readings of wall time at one instant, or of one node's
                           // clock before and after it was set
};

struct WorldView {
  const Truth& truth;
  const OriginHistory& origin;
  const std::vector<NodeView>& nodes;
  Instant now{};
  Promises promises{};
  std::optional<MonoTime> calm_since{};  // nothing goes wrong from then on
  bool has_ledger = false;               // through which a region may hear of its own dead
};

// Each method returns what is wrong, if anything is.
class Checker {
 public:
  using Fault = std::optional<std::string>;
  virtual ~Checker() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  virtual Fault after_answer(const WorldView&, const Answered&) { return {}; }
  // The same for algorithms that each process counts by itself.
  virtual Fault after_local_answer(const WorldView&, const Answered&) { return {}; }
  virtual Fault after_event(const WorldView&) { return {}; }
  virtual Fault after_write(const WorldView&, const Written&) { return {}; }
  // What leaves a process for the origin, and what reaches it from there.
  virtual Fault after_sent(const WorldView&, const Sent&) { return {}; }
  virtual Fault after_received(const WorldView&, const ReceivedReplay&) { return {}; }
  virtual Fault after_received(const WorldView&, const ReceivedRead&) { return {}; }
  virtual Fault after_reconnect(const WorldView&, int /*life*/) { return {}; }
  virtual Fault at_end(const WorldView&) { return {}; }
};

[[nodiscard]] std::vector<std::unique_ptr<Checker>> all_checkers();

}  // namespace weir::sim
