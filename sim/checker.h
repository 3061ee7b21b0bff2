// A checker watches the world and says what is broken. One file each, one invariant each;
// docs/simulation.md lists them.

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "limiter/engine.h"
#include "sim/truth.h"

namespace weir::sim {

// The state of one node at one instant.
struct NodeView {
  int node = 0;
  uint64_t incarnation = 0;
  Instant now{};  // by its own clock
  std::vector<limiter::CellView> cells;
};

// What the origin was told and had, from a place where messages cannot hide.
class OriginHistory {
 public:
  virtual ~OriginHistory() = default;
  // The least that all components of a cell but one amounted to at any time since; a read
  // since then has seen at least this.
  [[nodiscard]] virtual Count least_others_since(const CellId& cell, const Component& without,
                                                 MonoTime since) const = 0;
  [[nodiscard]] virtual std::map<Component, Count> components(const CellId& cell) const = 0;
};

struct WorldView {
  const Truth& truth;
  const OriginHistory& origin;
  const std::vector<NodeView>& nodes;
  WallTime now{};
  Millis max_freshness{0};
  Millis read_deadline{0};
};

// Each method returns what is wrong, if anything is.
class Checker {
 public:
  using Fault = std::optional<std::string>;
  virtual ~Checker() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  virtual Fault after_answer(const WorldView&, const Answered&) { return {}; }
  virtual Fault after_event(const WorldView&) { return {}; }
  virtual Fault after_replay(const WorldView&, int /*node*/, const CellReplay&) { return {}; }
  virtual Fault at_end(const WorldView&) { return {}; }
};

[[nodiscard]] std::vector<std::unique_ptr<Checker>> all_checkers();

}  // namespace weir::sim
