// A place in a region where processes come and go: a clock, and while something runs
// there the engine, its executor and its links to the origin and the ledger.

#pragma once

#include <memory>

#include "decide/engine.h"
#include "sim/checker.h"
#include "sim/ledger_link.h"
#include "sim/lossy_link.h"
#include "sim/timeline.h"
#include "sim/truth.h"

namespace weir::sim {

// Lives on the timeline.
struct Node {
  Node(const Clock& world, int its_region, int number, Millis skew)
      : region(its_region), index(number), clock(world, skew) {}

  [[nodiscard]] bool runs() const { return engine != nullptr; }
  [[nodiscard]] bool serves() const { return runs() && !draining; }

  const int region;
  const int index;  // in its region
  SkewedClock clock;
  LinkFaults usual;  // when nothing worse is going on
  LedgerFaults usual_ledger;
  bool isolated = false;
  bool astray = false;   // its clock is hours off
  Millis right_skew{0};  // what it is else
  uint64_t seed = 0;     // of the process that runs or ran last

  // Of the process that runs.
  Life* life = nullptr;
  std::shared_ptr<Process> process;
  std::unique_ptr<LinkWatcher> watcher;
  std::shared_ptr<LossyLink> link;
  std::unique_ptr<LedgerWatcher> ledger_watcher;
  std::shared_ptr<LedgerLink> ledger;  // none: there are no other regions
  std::shared_ptr<const Received> received;
  std::shared_ptr<decide::Engine> engine;
  int under_way = 0;  // requests
  bool draining = false;
  bool touched = false;  // by this event: its cells may have changed
  WorkReport last_replay;
  MonoTime idle_since{};  // nothing was sent, and nothing waits
  MonoTime last_beat{};
  uint64_t imported = 0;  // rows and presences, so far
};

}  // namespace weir::sim
