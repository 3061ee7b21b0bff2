// The random faults of a world.

#include <algorithm>

#include "sim/worlds/world.h"

namespace weir::sim {

namespace {

constexpr Millis kMostJump{150};  // of the clock that is set now and then
constexpr Millis kMostLate{2000};

}  // namespace

void World::schedule_fault() {
  const Millis next(random_.between(100, max_fault_gap_.count()));
  timeline_.post_in(next, [this] {
    if (!active_) return;
    if (ledger_ && random_.one_in(3)) {
      inject_ledger_fault();
    } else if (ledger_ && random_.one_in(5)) {
      inject_bridge_fault();
    } else if (random_.one_in(2)) {
      inject_node_fault();
    } else {
      inject_origin_fault();
    }
    schedule_fault();
  });
}

// Connections that break a second before the faults end leave writes that arrive when no request is
// accepted any more: only a read finds the counts that these writes lowered.
void World::schedule_final_disconnects() {
  timeline_.post_in(options_.fault_time - Millis(1000), [this] {
    for_each_node([this](Node& node) {
      if (node.serves()) drop_connection(node, kMostLate);
    });
  });
}

void World::inject_node_fault() {
  Node* const node = any_serving_node();
  if (node == nullptr) return;
  const auto kind = static_cast<WorldFault>(std::min<int64_t>(random_.between(0, 4), 3));
  static_assert(static_cast<int>(WorldFault::kDeadConnections) == 3);
  if (!happens(kind)) return;
  switch (kind) {
    case WorldFault::kKills: kill(*node); break;
    case WorldFault::kDrains: drain(*node); break;
    case WorldFault::kIsolation: isolate(*node); break;
    default: drop_connection(*node, Millis(random_.between(20, kMostLate.count()))); break;
  }
}

void World::inject_origin_fault() {
  Region& region = any_region();
  WatchedOrigin& origin = *region.origin;
  if (region.origin_connectivity != Connectivity::kUp) return;
  const Millis briefly(random_.between(50, 500));
  const Millis long_time(random_.between(500, 3000));
  const int64_t what = random_.between(0, 6);
  if (!happens(what <= 3 ? WorldFault::kOriginDataLoss : WorldFault::kOriginOutages)) return;
  monitor_.note_disruption();
  const MonoTime now = timeline_.now().mono;
  switch (what) {
    case 0:
      note("the origin is emptied");
      origin.forget_all();
      break;
    case 1:
      note("the origin starts again, empty");
      origin.forget_all();
      start_origin_outage(region, Connectivity::kRefused, briefly, [] {});
      break;
    case 2:
      note("the origin starts again from an old snapshot");
      origin.restore(now - Millis(random_.between(1000, 6000)), Loss::kOldSnapshot);
      start_origin_outage(region, Connectivity::kRefused, briefly, [] {});
      break;
    case 3:
      note("a lagging replica takes the origin's place");
      origin.restore(now - Millis(random_.between(20, 800)), Loss::kLaggingReplica);
      start_origin_outage(region, Connectivity::kSilent, briefly, [] {});
      break;
    case 4:
      note("the origin refuses");
      start_origin_outage(region, Connectivity::kRefused, long_time,
                          [this] { cover(Coverage::kRefusingOutageSurvived); });
      break;
    case 5:
      note("the origin is silent");
      start_origin_outage(region, Connectivity::kSilent, long_time,
                          [this] { cover(Coverage::kSilentOutageSurvived); });
      break;
    default: slow_down(region); break;
  }
}

void World::inject_ledger_fault() {
  if (ledger_connectivity_ != Connectivity::kUp) return;
  const Millis lasts(random_.between(300, 4000));
  int64_t what = random_.between(0, 7);
  if (what <= 5 && options_.fails_over_often) what = 4;
  const WorldFault kind = what <= 3   ? WorldFault::kLedgerOutages
                          : what <= 5 ? WorldFault::kLedgerFailovers
                          : what == 6 ? WorldFault::kFeedGaps
                                      : WorldFault::kRejectedRows;
  if (!happens(kind)) return;
  monitor_.note_disruption();
  switch (what) {
    case 0:
      note("the ledger refuses");
      start_ledger_outage(Connectivity::kRefused, lasts);
      break;
    case 1:
      note("the ledger is silent");
      start_ledger_outage(Connectivity::kSilent, lasts);
      break;
    case 2: start_region_outage(any_region(), Connectivity::kRefused, lasts); break;
    case 3: start_region_outage(any_region(), Connectivity::kSilent, lasts); break;
    case 4: {
      note("a lagging replica takes the ledger's place");
      const Millis skew(random_.between(-3000, 3000));
      ledger_->fail_over(timeline_.now().mono - Millis(random_.between(50, 4000)), skew);
      monitor_.conditions.failed_over = true;
      start_ledger_outage(Connectivity::kRefused, Millis(random_.between(50, 500)));
      break;
    }
    case 5:
      note("the ledger's clock is set");
      ledger_->set_skew(Millis(random_.between(-2000, 2000)));
      break;
    case 6:
      note("batches are missing from a feed");
      ledger_->lose_next_batches(any_region().name, static_cast<uint64_t>(random_.between(1, 3)));
      break;
    default: reject_rows_of_a_tuple(); break;
  }
}

void World::inject_bridge_fault() {
  switch (random_.between(0, 2)) {
    case 0: {
      Region& region = any_region();
      if (!happens(WorldFault::kOriginEvicts)) return;
      if (!region.origin->evict_region_counts(random_)) return;
      note("the origin evicts counts of other regions");
      monitor_.note_disruption();
      cover(Coverage::kRegionCountsEvicted);
      break;
    }
    case 1: pause_a_bridge(); break;
    default: {
      Node* const bridge = any_bridge();
      if (bridge == nullptr || !happens(WorldFault::kBridgeKills)) return;
      cover(Coverage::kBridgeKilled);
      kill(*bridge);
      break;
    }
  }
}

void World::pause_a_bridge() {
  Node* const bridge = any_bridge();
  if (bridge == nullptr || !happens(WorldFault::kBridgePauses)) return;
  pause(*bridge, Millis(random_.between(500, 4000)));
}

void World::schedule_bridge_pauses() {
  timeline_.post_in(Millis(random_.between(500, 3000)), [this] {
    if (!active_) return;
    schedule_bridge_pauses();
    pause_a_bridge();
  });
}

void World::start_ledger_outage(Connectivity connectivity, Millis lasts) {
  ledger_connectivity_ = connectivity;
  update_connectivity();
  timeline_.post_in(lasts, [this] {
    monitor_.note_disruption();
    ledger_connectivity_ = Connectivity::kUp;
    update_connectivity();
  });
}

void World::start_region_outage(Region& region, Connectivity connectivity, Millis lasts) {
  if (region.ledger_connectivity != Connectivity::kUp) return;
  note(region.name + " cannot reach the ledger");
  region.ledger_connectivity = connectivity;
  update_connectivity();
  timeline_.post_in(lasts, [this, &region] {
    monitor_.note_disruption();
    region.ledger_connectivity = Connectivity::kUp;
    update_connectivity();
  });
}

// For a while, the ledger rejects the rows of one tuple as invalid.
void World::reject_rows_of_a_tuple() {
  Node* const node = any_serving_node();
  if (node == nullptr) return;
  note("rows of one tuple are refused");
  node->ledger->rejected_name = "user-" + std::to_string(random_.between(0, options_.tuples - 1));
  timeline_.post_in(Millis(random_.between(200, 2000)),
                    [link = node->ledger] { link->rejected_name.clear(); });
}

void World::schedule_rejected_rows() {
  timeline_.post_in(Millis(random_.between(500, 3000)), [this] {
    if (!active_) return;
    schedule_rejected_rows();
    if (!happens(WorldFault::kRejectedRows)) return;
    monitor_.note_disruption();
    reject_rows_of_a_tuple();
  });
}

void World::drop_connection(Node& node, Millis late) {
  node.link->break_holding_for(late);
  note("the connection of node " + std::to_string(node.index) + " dies");
}

// The node reaches no store, but serves requests.
void World::isolate(Node& node) {
  note("node " + std::to_string(node.index) + " is isolated");
  node.isolated = true;
  update_connectivity();
  timeline_.post_in(Millis(random_.between(300, 2500)), [this, &node] {
    if (!node.isolated) return;
    note("node " + std::to_string(node.index) + " is back");
    node.isolated = false;
    update_connectivity();
    if (node.is_running()) node.link->reconnect();
  });
}

// Sometimes just after a whole second, when windows begin, and back over it.
void World::schedule_clock() {
  // Back only if it was set ahead before.
  const bool over_a_start =
      options_.steps_back ? stepping_node_->clock.skew() > kMostJump / 3 : random_.one_in(3);
  const Millis second(1000);
  const Millis to_start = second - stepping_node_->clock.now().wall.time_since_epoch() % second;
  const Millis delay =
      over_a_start ? to_start + Millis(random_.between(5, 60)) : Millis(random_.between(50, 800));
  timeline_.post_in(delay, [this, over_a_start] {
    if (!active_) return;
    const int64_t most = kMostJump.count();
    const int64_t least = options_.steps_back ? most / 2 : -most;
    set_clock(
        Millis(over_a_start ? random_.between(-most, -most / 2) : random_.between(least, most)));
    schedule_clock();
  });
}

void World::set_clock(Millis skew) {
  note("the clock of node " + std::to_string(stepping_node_->index) +
       " is set, ms off: " + std::to_string(skew.count()));
  stepping_node_->clock.set_skew(skew);
}

// Sets the clock of one node hours ahead or back, and corrects it some seconds later. Counts that
// it accepted and did not replay are lost.
void World::schedule_wrong_clock() {
  timeline_.post_in(Millis(random_.between(500, 8000)), [this] {
    if (!active_) return;
    schedule_wrong_clock();
    Node* const node = any_serving_node();
    if (node == nullptr || node == stepping_node_ || node->wrong_clock) return;
    const Millis hours(random_.between(1, 12) * 3'600'000 + random_.between(0, 60'000));
    set_wrong_clock(*node, random_.one_in(3) ? -hours : hours);
    timeline_.post_in(Millis(random_.between(200, 5000)), [this, node] {
      if (node->wrong_clock) correct_clock(*node);
    });
  });
}

void World::set_wrong_clock(Node& node, Millis skew) {
  note("the clock of node " + std::to_string(node.index) + " is off by ms",
       static_cast<uint64_t>(skew.count()));
  monitor_.note_disruption();
  node.wrong_clock = true;
  node.correct_skew = node.clock.skew();
  node.clock.set_skew(node.correct_skew + skew);
  if (node.process != nullptr) node.process->wrong_clock_until = WallTime::max();
}

void World::correct_clock(Node& node) {
  note("the clock of node " + std::to_string(node.index) + " is right again");
  monitor_.note_disruption();
  node.wrong_clock = false;
  node.clock.set_skew(node.correct_skew);
  node.clock.forget_latest();
  cover(Coverage::kClockHoursOff);
  if (node.process != nullptr) node.process->wrong_clock_until = node.clock.now().wall;
}

// Sets all clocks ahead together: new windows begin and all earlier ones are over.
void World::schedule_clock_jump() {
  timeline_.post_in(Millis(random_.between(1000, 8000)), [this] {
    if (!active_) return;
    schedule_clock_jump();
    // Clocks count nanoseconds in 63 bits, which end in the year 2262.
    constexpr WallTime kEndOfTime{Millis(9'000'000'000'000)};
    const int64_t windows = int64_t{1} << random_.between(16, 32);
    const Millis ahead = windows * tuples_.back().duration + Millis(random_.between(-2000, 2000));
    if (timeline_.now().wall + ahead > kEndOfTime) return;
    note("all clocks leap, by windows", static_cast<uint64_t>(windows));
    monitor_.note_disruption();
    cover(Coverage::kClockJump);
    timeline_.jump(ahead);
    monitor_.conditions.jumped_at = timeline_.now().mono;
  });
}

// Calls `survived` if requests were answered during the outage.
void World::start_origin_outage(Region& region, Connectivity connectivity, Millis lasts,
                                const std::function<void()>& survived) {
  region.origin_connectivity = connectivity;
  update_connectivity();
  const uint64_t before = report_.admitted + report_.denied;
  timeline_.post_in(lasts, [this, &region, survived, before] {
    if (report_.admitted + report_.denied > before) survived();
    monitor_.note_disruption();
    region.origin_connectivity = Connectivity::kUp;
    update_connectivity();
    reconnect_all(region);
  });
}

void World::update_connectivity() {
  for_each_node([this](Node& node) {
    if (!node.is_running()) return;
    const Region& region = region_of(node);
    node.link->faults.connectivity =
        node.isolated ? Connectivity::kSilent : region.origin_connectivity;
    if (!node.ledger) return;
    node.ledger->faults.connectivity = ledger_connectivity_ != Connectivity::kUp
                                           ? ledger_connectivity_
                                           : region.ledger_connectivity;
  });
}

// Each node reconnects when it detects the outage.
void World::reconnect_all(Region& region) {
  for (const auto& node : region.nodes) {
    if (!node->is_running()) continue;
    timeline_.post_in(Millis(random_.between(0, 100)), [link = node->link] { link->reconnect(); });
  }
}

void World::slow_down(Region& region) {
  note("the origin is slow");
  const Millis slow(random_.between(160, 500));
  for (const auto& node : region.nodes) {
    if (!node->is_running()) continue;
    node->link->faults.slow = slow;
    timeline_.post_in(Millis(random_.between(300, 1500)),
                      [link = node->link] { link->faults.slow = Millis(0); });
  }
}

// Ends all faults. Work in flight completes. From then on every node is probed for every tuple.
void World::stop_faults() {
  note("faults end");
  active_ = false;
  ledger_connectivity_ = Connectivity::kUp;
  for (const auto& region : regions_) {
    region->origin_connectivity = Connectivity::kUp;
    region->ledger_connectivity = Connectivity::kUp;
  }
  for_each_node([this](Node& node) {
    node.isolated = false;
    if (node.wrong_clock) correct_clock(node);
    // Replies must be able to arrive before the deadline.
    node.normal = {.most_delay =
                       std::min(node.normal.most_delay, monitor_.guarantees.read_deadline / 4)};
    node.normal_ledger = {.most_delay = node.normal_ledger.most_delay};
    if (node.is_running()) {
      const bool was_out = node.link->faults.connectivity != Connectivity::kUp;
      node.link->faults = node.normal;
      if (node.ledger) {
        node.ledger->faults = node.normal_ledger;
        node.ledger->rejected_name.clear();
      }
      if (was_out) node.link->reconnect();
    } else {
      cover(Coverage::kRestarted);
      start_process(node);
    }
  });
  std::optional<MonoTime>& calm_since = monitor_.conditions.calm_since;
  calm_since = timeline_.now().mono + kMostLate + monitor_.guarantees.read_deadline;
  // Failed ledger calls are retried.
  if (ledger_ && options_.faults != FaultMode::kNone) *calm_since += Monitor::kRecovery;
}

}  // namespace weir::sim
