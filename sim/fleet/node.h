// A place in a region where processes come and go: a clock, and while something runs there the
// engine and its links to the origin and the ledger.

#pragma once

#include <cstdint>
#include <memory>

#include "decide/engine.h"
#include "sim/fleet/node_clock.h"
#include "sim/ledger_link.h"
#include "sim/lossy_link.h"

namespace weir::sim {

// Lives on the timeline.
struct FleetNode {
  FleetNode(uint32_t its_number, uint32_t its_region, NodeClock its_clock)
      : number(its_number), region(its_region), clock(std::move(its_clock)) {}

  enum class State : uint8_t { kGone, kServes, kDrains };
  [[nodiscard]] bool runs() const { return state != State::kGone; }

  const uint32_t number;  // in the fleet
  const uint32_t region;
  NodeClock clock;
  State state = State::kGone;
  uint64_t lives = 0;  // how many processes have run here
  MonoTime last_beat{};
  MonoTime idle_since{};  // while it drains

  // Of the process that runs.
  std::unique_ptr<LinkWatcher> origin_watcher;
  std::unique_ptr<LedgerWatcher> ledger_watcher;
  std::shared_ptr<LossyLink> origin;
  std::shared_ptr<LedgerLink> ledger;  // none: there is no ledger
  std::shared_ptr<decide::Engine> engine;
};

}  // namespace weir::sim
