// The in-process origin with a witness: remembers what every cell held and when, and
// shows each write to whoever asked to see them.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "origins/in_process_origin.h"
#include "sim/checker.h"

namespace weir::sim {

// Lives on the timeline.
class WatchedOrigin final : public OriginHistory {
 public:
  using Witness = std::function<void(int node, const CellReplay&)>;
  WatchedOrigin(const Clock& clock, Witness witness)
      : clock_(clock), witness_(std::move(witness)), origin_(clock) {}

  // The origin as one node reaches it. Must not outlive this.
  [[nodiscard]] std::shared_ptr<RegionalOrigin> door_of(int node);

  void forget_all();

  [[nodiscard]] Count least_others_since(const CellId& cell, const Component& without,
                                         MonoTime since) const override;
  [[nodiscard]] std::map<Component, Count> components(const CellId& cell) const override {
    return origin_.components(cell);
  }

 private:
  class Door;
  struct Moment {
    MonoTime when;
    std::map<Component, Count> components;
  };
  void note(const CellId& cell);

  const Clock& clock_;
  Witness witness_;
  origins::InProcessOrigin origin_;
  std::map<CellId, std::vector<Moment>> history_;
};

}  // namespace weir::sim
