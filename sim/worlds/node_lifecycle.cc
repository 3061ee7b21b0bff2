// How the processes of a world start, run and end.

#include <algorithm>
#include <utility>

#include "sim/checkers/node_watchers.h"
#include "sim/worlds/world.h"

namespace weir::sim {

namespace {

constexpr Millis kReplaySeldom{1000};
constexpr Millis kSyncSeldom{2000};
constexpr Millis kSweepEvery{700};
constexpr size_t kCapacity = 64;
constexpr size_t kSmallCapacity = 1;  // a table has a few more slots
constexpr size_t kLargeCapacity = 512;
constexpr int64_t kAcksPerKill = 40;
constexpr int64_t kStepsPerKill = 250;

}  // namespace

// Kills processes after an acknowledged replay or at a step of the bridge, if the options say so.
class World::NodeOriginWatcher final : public CheckedOriginWatcher {
 public:
  NodeOriginWatcher(World& world, Node& node)
      : CheckedOriginWatcher(world.monitor_, world.timeline_, node), world_(world), node_(node) {}

  using CheckedOriginWatcher::received;
  void received(uint64_t message, const std::vector<CellReplay>& cells,
                const Result<std::vector<CellTotals>>& totals) override {
    CheckedOriginWatcher::received(message, cells, totals);
    if (totals.ok() && world_.options_.kills_after_ack) world_.maybe_kill_after_ack(node_);
  }
  void bridge_sent(BridgeStep step, size_t /*entries*/) override {
    world_.maybe_kill_bridge(node_, step);
  }
  void bridge_applied(BridgeStep step) override { world_.maybe_kill_bridge(node_, step); }
  void granted(bool ours) override {
    CheckedOriginWatcher::granted(ours);
    if (!ours) return;
    const Node*& bridge = world_.region_of(node_).bridge;
    if (bridge != nullptr && bridge != &node_) world_.cover(Coverage::kBridgeReplaced);
    bridge = &node_;
  }

 private:
  World& world_;
  Node& node_;
};

// The same for the calls to the ledger.
class World::NodeLedgerWatcher final : public CheckedLedgerWatcher {
 public:
  NodeLedgerWatcher(World& world, Node& node)
      : CheckedLedgerWatcher(world.monitor_), world_(world), node_(node) {}

  void sent(const std::vector<LedgerRow>&) override {
    world_.maybe_kill_bridge(node_, BridgeStep::kPublish);
  }
  void committed() override { world_.maybe_kill_bridge(node_, BridgeStep::kPublish); }

 private:
  World& world_;
  Node& node_;
};

// Counts of clients whose settings change stay for longer than a world lasts.
static size_t capacity_for(const WorldOptions& options) {
  if (options.table == TableSize::kSmall) return kSmallCapacity;
  return options.changes_settings ? kLargeCapacity : kCapacity;
}

void World::start_process(Node& node) {
  const bool same_name = options_.planted_bug == PlantedBug::kSameIncarnation && node.seed != 0;
  if (!same_name) node.seed = random_.next();
  node.paused_until = {};
  Region& region = region_of(node);
  const int number = static_cast<int>(monitor_.oracle(node.region).processes().size());
  node.executor = std::make_shared<ProcessExecutor>(timeline_, [&node] { node.touched = true; });
  node.link =
      std::make_shared<OriginLink>(timeline_, region.origin->endpoint_of(number), random_.next());
  node.link->faults = node.normal;
  node.link->detects_refusal = node.seed % 2 == 0;
  links_.push_back(node.link);
  if (ledger_) connect_ledger(node, number);
  plant_in_links(options_.planted_bug, node);
  node.engine = decide::Engine::make(node.clock,
                                     {.origin = region.has_origin ? node.link : nullptr,
                                      .ledger = node.ledger,
                                      .region = region.name,
                                      .sync = ledger_ ? ledger_->rules() : SyncRules{},
                                      .on_origin_loss = monitor_.guarantees.on_origin_loss,
                                      .read_deadline = monitor_.guarantees.read_deadline,
                                      .max_freshness = monitor_.guarantees.max_freshness,
                                      .replay_within = replay_within_,
                                      .capacity = capacity_for(options_),
                                      .remote_tuples = static_cast<size_t>(options_.remote_tuples),
                                      .seed = node.seed});
  node.process = &monitor_.start_process(node);
  node.watcher = std::make_unique<NodeOriginWatcher>(*this, node);
  node.link->watcher = node.watcher.get();
  // The new process has seen no earlier time.
  node.clock.forget_latest();
  if (node.wrong_clock) node.process->wrong_clock_until = WallTime::max();
  node.in_flight = 0;
  node.draining = false;
  node.last_replay = {};
  node.applied = 0;
  node.touched = true;
  ++report_.processes;
  update_connectivity();
  monitor_.note_disruption();
  schedule_replay(node, number);
  if (ledger_) schedule_sync(node, number);
  schedule_heartbeat(node);
  schedule_sweep(node);
  note("process " + std::to_string(number) + " begins on node " + std::to_string(node.index) +
       (ledger_ ? " of " + region.name : ""));
}

void World::connect_ledger(Node& node, int process) {
  const LedgerUser user{
      .region = node.region, .node = node.index, .process = process, .name = region_of(node).name};
  node.ledger = std::make_shared<LedgerLink>(timeline_, *ledger_, user, random_.next());
  node.ledger->faults = node.normal_ledger;
  node.ledger->detects_refusal = node.seed % 3 == 0;
  node.ledger_watcher = std::make_unique<NodeLedgerWatcher>(*this, node);
  node.ledger->watcher = node.ledger_watcher.get();
  ledger_links_.push_back(node.ledger);
}

void World::end_process(Node& node, ProcessInfo::Exit exit) {
  node.process->ended = Instant{.wall = node.clock.latest(), .mono = timeline_.now().mono};
  node.process->exit = exit;
  stop(node);
  // Another process starts on the same host.
  const Millis down = active_ ? Millis(random_.between(0, 2000)) : Millis(0);
  timeline_.post_in(down, [this, &node] {
    if (node.is_running() || over_) return;
    cover(Coverage::kRestarted);
    start_process(node);
  });
}

void World::stop(Node& node) {
  report_.evicted += node.engine->stats().evicted;
  const uint64_t left_out = node.engine->sync_stats().left_out;
  report_.left_out += left_out;
  monitor_.conditions.no_room = monitor_.conditions.no_room || left_out > 0;
  stop_process(node);
}

// Requests in flight keep their engine alive until they are answered or time out.
void World::release_all() {
  over_ = true;
  monitor_.stop();
  active_ = false;
  probing_ = false;
  for_each_node([this](Node& node) {
    if (node.is_running()) stop(node);
  });
  const MonoTime end = timeline_.now().mono + 2 * monitor_.guarantees.read_deadline;
  while (timeline_.step(end)) {
  }
}

void World::kill(Node& node) {
  const Count unacked = unacked_counts(node, *region_of(node).origin);
  if (unacked > 0) cover(Coverage::kKilledWithUnackedCounts);
  note("node " + std::to_string(node.index) + " is killed, unacknowledged", unacked);
  monitor_.note_disruption();
  end_process(node, ProcessInfo::Exit::kKilled);
}

// The origin has just acknowledged a replay.
void World::maybe_kill_after_ack(Node& node) {
  if (!active_ || !random_.one_in(kAcksPerKill)) return;
  timeline_.post_in(Millis(0), [this, &node, executor = node.executor] {
    if (!active_ || !executor->alive()) return;
    cover(Coverage::kKilledAfterAck);
    kill(node);
  });
}

void World::maybe_kill_bridge(Node& node, BridgeStep step) {
  if (!active_ || !options_.kills_bridges || !happens(WorldFault::kBridgeKills)) return;
  if (!node.is_bridge || !random_.one_in(kStepsPerKill)) return;
  timeline_.post_in(Millis(0), [this, &node, step, executor = node.executor] {
    if (!active_ || !executor->alive()) return;
    cover(Coverage::kBridgeKilled);
    note("the bridge dies in step", static_cast<uint64_t>(step));
    kill(node);
  });
}

// The process does not run, and requests go to others. No request may be in flight, because its
// verdict would be as old as the pause is long.
void World::pause(Node& node, Millis how_long) {
  if (node.in_flight > 0) return;
  note("node " + std::to_string(node.index) + " pauses, ms",
       static_cast<uint64_t>(how_long.count()));
  if (node.is_bridge) cover(Coverage::kBridgePaused);
  monitor_.note_disruption();
  pause_process(node, timeline_.now().mono + how_long);
}

Node* World::any_bridge() {
  std::vector<Node*> bridges;
  for_each_node([&](Node& node) {
    if (is_awake(node) && node.is_bridge) bridges.push_back(&node);
  });
  if (bridges.empty()) return nullptr;
  return bridges[static_cast<size_t>(random_.between(0, static_cast<int64_t>(bridges.size()) - 1))];
}

// The node takes no more requests and ends when all counts are acknowledged.
void World::drain(Node& node) {
  note("node " + std::to_string(node.index) + " drains");
  node.draining = true;
  node.idle_since = timeline_.now().mono;
  if (options_.planted_bug == PlantedBug::kDrainCutShort)
    end_process(node, ProcessInfo::Exit::kDrained);
}

void World::schedule_replay(Node& node, int process) {
  const Millis every =
      options_.planted_bug == PlantedBug::kReplaysTooSeldom ? kReplaySeldom : kIteration;
  timeline_.post_in(every, [this, &node, process] {
    if (!node.is_running() || node.process->number != process) return;
    if (node.is_paused(timeline_.now().mono)) {
      // Its counts are late as long as it does not run.
      node.watcher->disrupted();
      node.idle_since = timeline_.now().mono;
      return schedule_replay(node, process);
    }
    node.last_replay = node.engine->run_replay(node.clock.now(), *node.executor);
    const bool idle = node.last_replay.done == 0 && node.last_replay.waiting == 0;
    if (node.last_replay.done > 0) node.touched = true;
    const MonoTime now = timeline_.now().mono;
    if (!idle || node.in_flight > 0) node.idle_since = now;
    // A replay without an acknowledgement would be waiting again after its deadline.
    if (node.draining && now - node.idle_since > monitor_.guarantees.read_deadline) {
      cover(Coverage::kDrained);
      note("node " + std::to_string(node.index) + " has drained");
      node.engine->run_shutdown(node.clock.now());
      end_process(node, ProcessInfo::Exit::kDrained);
      return;
    }
    schedule_replay(node, process);
  });
}

// As often as the replay. A draining process flushes all rows.
void World::schedule_sync(Node& node, int process) {
  const Millis every =
      options_.planted_bug == PlantedBug::kSyncsTooSeldom ? kSyncSeldom : kIteration;
  timeline_.post_in(every, [this, &node, process] {
    if (!node.is_running() || node.process->number != process) return;
    if (node.is_paused(timeline_.now().mono)) return schedule_sync(node, process);
    node.engine->run_sync(node.clock.now(), node.draining ? Flush::kAll : Flush::kDue);
    const uint64_t applied = node.engine->sync_stats().applied;
    if (std::exchange(node.applied, applied) != applied) node.touched = true;
    schedule_sync(node, process);
  });
}

// Sweeps tuples whose windows are over; they return with another generation. Not in worlds that set
// a clock back into such a window: the counts that the process swept would then be a sibling's, and
// the oracle keeps one contributor for each.
void World::schedule_sweep(Node& node) {
  if (stepping_node_ != nullptr) return;
  node.executor->post_at(timeline_.now().mono + kSweepEvery,
                         [this, &node, executor = node.executor] {
                           if (!executor->alive()) return;
                           const size_t slots = capacity_for(options_);
                           if (node.engine->run_sweep(node.clock.now(), slots).done > 0)
                             cover(Coverage::kTupleExpired);
                           schedule_sweep(node);
                         });
}

void World::schedule_heartbeat(Node& node) {
  const MonoTime now = timeline_.now().mono;
  send_heartbeat(node, region_of(node).nodes, now);
  node.executor->post_at(now + kHeartbeatEvery, [this, &node, executor = node.executor] {
    if (executor->alive()) schedule_heartbeat(node);
  });
}

}  // namespace weir::sim
