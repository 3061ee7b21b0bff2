// A host in a region: a clock, and while a process runs on it the engine, its executor and its
// links to the origin and the ledger. Worlds and fleets use the same nodes.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "decide/engine.h"
#include "sim/checkers/missing_counts.h"
#include "sim/checkers/oracle.h"
#include "sim/checkers/region_checker.h"
#include "sim/faults/planted_bug.h"
#include "sim/nodes/node_clock.h"
#include "sim/nodes/process_executor.h"
#include "sim/stores/ledger_link.h"
#include "sim/stores/origin_link.h"

namespace weir::sim {

// Nodes run their background work this often.
inline constexpr Millis kIteration{10};
// The same as the Redis origin: a node without a heartbeat for so long is not counted.
inline constexpr Millis kHeartbeatEvery{1000};
inline constexpr Millis kHeartbeatTimeout{3000};

// Belongs to the timeline.
struct Node {
  Node(int its_region, int its_index, NodeClock its_clock)
      : region(its_region), index(its_index), clock(std::move(its_clock)) {}

  [[nodiscard]] bool is_running() const { return engine != nullptr; }
  [[nodiscard]] bool serves() const { return is_running() && !draining; }
  [[nodiscard]] bool is_paused(MonoTime now) const { return now < paused_until; }

  const int region;
  const int index;      // in its region
  uint32_t number = 0;  // in its fleet
  NodeClock clock;
  LinkFaults normal;  // while no fault is injected
  LedgerFaults normal_ledger;
  bool isolated = false;
  bool wrong_clock = false;  // the clock is hours off
  Millis correct_skew{0};    // the skew when it is not
  uint64_t seed = 0;         // of the current or the last process

  // Of the current process.
  ProcessInfo* process = nullptr;  // none: no checker runs
  std::shared_ptr<ProcessExecutor> executor;
  std::unique_ptr<LinkWatcher> watcher;
  std::shared_ptr<OriginLink> link;
  std::unique_ptr<LedgerWatcher> ledger_watcher;
  std::shared_ptr<LedgerLink> ledger;  // none: there is no ledger
  std::shared_ptr<decide::Engine> engine;
  int in_flight = 0;  // requests
  bool draining = false;
  bool touched = false;  // by the current event: its cells may have changed
  WorkReport last_replay;
  MonoTime idle_since{};  // since then nothing was sent and nothing waits
  MonoTime last_heartbeat{};
  MonoTime paused_until{};
  bool is_bridge = false;  // of its region, as it last read; only with checkers
  uint64_t applied = 0;    // rows of other regions
};

// Whether the process has decided requests that it will answer next.
[[nodiscard]] inline bool has_ready(const Node& node) {
  return node.is_running() && node.executor->has_ready();
}

// Ends the current process. Messages that it sent still arrive.
void stop_process(Node& node);

// The current process does not run until then.
void pause_process(Node& node, MonoTime until);

// Makes the links of the current process behave as the bug says.
void plant_in_links(PlantedBug bug, Node& node);

// The counts that the current process accepted in live windows and `origin` does not have.
template <typename Origin>
[[nodiscard]] Count unacked_counts(const Node& node, const Origin& origin) {
  Count unacked = 0;
  const uint64_t incarnation = node.engine->incarnation();
  const WallTime now = node.clock.now().wall;
  node.engine->inspect([&](const decide::CellView& cell) {
    if (!is_live_at({cell.tuple, cell.sequence}, now)) return;
    const Components components = origin.components({cell.tuple, cell.sequence});
    const auto mine = components.find({incarnation, cell.generation});
    const Count acked = mine == components.end() ? 0 : mine->second;
    if (cell.own > acked) unacked += cell.own - acked;
  });
  return unacked;
}

// Sends a heartbeat and reads how many nodes of the region are alive; both need the origin.
template <typename Siblings>
void send_heartbeat(Node& node, const Siblings& siblings, MonoTime now) {
  if (node.link->faults.connectivity != Connectivity::kUp) return;
  node.last_heartbeat = now;
  uint32_t alive = 0;
  uint32_t before = 0;
  for (const auto& other : siblings) {
    if (other->last_heartbeat == MonoTime{} || now - other->last_heartbeat > kHeartbeatTimeout) {
      continue;
    }
    ++alive;
    if (other->index < node.index) ++before;
  }
  node.link->note_heartbeat(node.clock.now().mono, alive, before);
}

}  // namespace weir::sim
