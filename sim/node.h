// A place in the region where processes come and go: a clock, and while something runs
// there the engine, its executor and its link to the origin.

#pragma once

#include <memory>

#include "limiter/engine.h"
#include "sim/lossy_link.h"
#include "sim/timeline.h"
#include "sim/truth.h"

namespace weir::sim {

// Lives on the timeline.
struct Node {
  Node(const Clock& world, int number, Millis skew) : index(number), clock(world, skew) {}

  [[nodiscard]] bool runs() const { return engine != nullptr; }
  [[nodiscard]] bool serves() const { return runs() && !draining; }

  const int index;
  SkewedClock clock;
  LinkFaults usual;  // when nothing worse is going on
  bool isolated = false;
  uint64_t seed = 0;  // of the process that runs or ran last

  // Of the process that runs.
  Life* life = nullptr;
  std::shared_ptr<Process> process;
  std::unique_ptr<LinkWatcher> watcher;
  std::shared_ptr<LossyLink> link;
  std::shared_ptr<limiter::Engine> engine;
  int under_way = 0;  // requests
  bool draining = false;
  bool touched = false;  // by this event: its cells may have changed
  WorkReport last_replay;
  MonoTime idle_since{};  // nothing was sent, and nothing waits
  MonoTime last_beat{};
};

}  // namespace weir::sim
