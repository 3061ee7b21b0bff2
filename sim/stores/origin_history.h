// The state of an origin over time, recorded in the origin itself, for checkers.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/stores/bridge_data.h"
#include "sim/stores/simulated_origin.h"
#include "weir/origin.h"

namespace weir::sim {

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
  Count told = 0;  // of the total; steps granted the rest
  const Components& before;
  const Components& after;
};

// The exact calls on a tuple.
struct ExactHistory {
  Count granted = 0;      // all cost that asks were granted
  MonoTime charged_at{};  // the last call that changed the state
  // Since the origin last lost its states: what writers told that they had admitted by themselves,
  // and what was charged of that and for other regions.
  Count told = 0;
  Count charged = 0;
  // When it heard of other regions without knowing of the usage windows just before.
  std::vector<MonoTime> first_foreign{};
  int64_t foreign_sequence = -1;  // the newest usage window that it heard of
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
  // What bridges have added to a cell because it was missing after a loss.
  [[nodiscard]] virtual Count restored(const CellId& cell) const = 0;
  // The same of all cells of which they added something.
  [[nodiscard]] virtual const std::map<CellId, Count>& all_restored() const = 0;
  // All that steps have granted, also what they granted again.
  [[nodiscard]] virtual Count granted(const CellId& cell) const = 0;
  // Null: there was none.
  [[nodiscard]] virtual const ExactHistory* exact_history(const std::string& tuple) const = 0;
  // When the states of exact calls were lost.
  [[nodiscard]] virtual MonoTime exact_lost_at() const = 0;
  // What the region keeps at the origin to share its counts with other regions.
  [[nodiscard]] virtual const BridgeData& bridge() const = 0;
  // Whether a component of the cell has ever decreased.
  [[nodiscard]] virtual bool has_lost(const CellId& cell) const = 0;
  // In order; before the first entry it was 0.
  [[nodiscard]] virtual const std::vector<ComponentValue>& component_history(
      const CellId& cell, const Component& component) const = 0;
};

}  // namespace weir::sim
