// Life and death of the world's processes.

#include <algorithm>
#include <utility>

#include "sim/worlds/world.h"

namespace weir::sim {

namespace {

constexpr Millis kReplaySeldom{1000};
constexpr Millis kSyncSeldom{2000};
constexpr Millis kSweepEvery{700};
constexpr size_t kCapacity = 64;
constexpr size_t kSmall = 1;  // a table has some slots more
constexpr int64_t kAcksPerKill = 40;
// As the origin in Redis has it: who was not heard of for so long is not counted.
constexpr Millis kHeartbeatEvery{1000};
constexpr Millis kHeartbeatTimeout{3000};

LedgerBug ledger_bug_of(PlantedBug planted_bug) {
  switch (planted_bug) {
    case PlantedBug::kForeignPublished: return LedgerBug::kAddsForeign;
    case PlantedBug::kOwnRowAsForeign: return LedgerBug::kOwnAsForeign;
    case PlantedBug::kChangesSummed: return LedgerBug::kSumsChanges;
    case PlantedBug::kLeaseEndIgnored: return LedgerBug::kIgnoresLeaseEnd;
    case PlantedBug::kRegionsUnderestimated: return LedgerBug::kHidesRegions;
    case PlantedBug::kLimitsNotReceived: return LedgerBug::kHidesLimits;
    case PlantedBug::kFalseRowAcks: return LedgerBug::kFalseAcks;
    case PlantedBug::kChangesDropped: return LedgerBug::kDropsChanges;
    default: return LedgerBug::kNone;
  }
}

}  // namespace

// Shows to the checkers what leaves and reaches one process.
class World::NodeOriginWatcher final : public LinkWatcher {
 public:
  NodeOriginWatcher(World& world, Node& node) : world_(world), node_(node), process_(*node.process) {}

  void disrupted() override {
    process_.disruptions.push_back(world_.timeline_.now().mono);
    world_.note_disruption();
  }
  void reconnected() override {
    const int process = process_.number;
    check([&](RegionChecker& checker) { return checker.after_reconnect(view(), process); });
  }
  void sent(uint64_t message, const std::vector<CellReplay>& cells) override {
    const SentReplay sent{.process = process_.number, .message = message, .cells = cells};
    check([&](RegionChecker& checker) { return checker.after_sent(view(), sent); });
  }
  void received(uint64_t message, const std::vector<CellReplay>& cells,
                const Result<std::vector<CellTotals>>& totals) override {
    node_.touched = true;
    const ReceivedReplay received{
        .sent = {.process = process_.number, .message = message, .cells = cells}, .totals = totals};
    check([&](RegionChecker& checker) { return checker.after_received(view(), received); });
    if (totals.ok() && world_.options_.kills_after_ack) world_.maybe_kill_after_ack(node_);
  }
  void received(const std::vector<CellRead>& cells,
                const Result<std::vector<CellTotals>>& totals) override {
    node_.touched = true;
    const ReceivedRead received{.process = process_.number, .cells = cells, .totals = totals};
    check([&](RegionChecker& checker) { return checker.after_received(view(), received); });
  }

 private:
  void check(const std::function<RegionChecker::Violation(RegionChecker&)>& ask) {
    world_.check(world_.region_of(node_), ask);
  }
  [[nodiscard]] RegionView view() const { return world_.view(world_.region_of(node_)); }

  World& world_;
  Node& node_;
  ProcessInfo& process_;
};

// The same for the ledger.
class World::NodeLedgerWatcher final : public LedgerWatcher {
 public:
  NodeLedgerWatcher(World& world, std::shared_ptr<ImportLog> received)
      : world_(world), received_(std::move(received)) {}

  void disrupted() override { world_.note_disruption(); }
  void rejected(const LedgerNews& news) override {
    for (const LedgerRow& row : news.rows) world_.rejected_tuples_.insert(tuple_of(row.key));
  }
  void received(const LedgerNews& news) override {
    for (const LedgerRow& row : news.rows) {
      ImportLog::Row& known = received_->rows[{cell_of(row), row.region}];
      if (row.count > known.count) known.since = world_.timeline_.now().mono;
      known.count = std::max(known.count, row.count);
      if (known.limit == 0 || row.limit_seen < known.limit) known.limit = row.limit_seen;
    }
    for (const LedgerPresence& presence : news.presences) {
      WallTime& until = received_->present[{tuple_of(presence.key), presence.region}];
      until = std::max(until, presence.until);
    }
  }

 private:
  World& world_;
  const std::shared_ptr<ImportLog> received_;
};

void World::start_process(Node& node) {
  const bool same_name = options_.planted_bug == PlantedBug::kSameIncarnation && node.seed != 0;
  if (!same_name) node.seed = random_.next();
  Region& region = region_of(node);
  const int number = static_cast<int>(region.oracle.processes().size());
  node.executor = std::make_shared<ProcessExecutor>(timeline_, [&node] { node.touched = true; });
  node.link =
      std::make_shared<OriginLink>(timeline_, region.origin->endpoint_of(number), random_.next());
  node.link->faults = node.normal;
  node.link->detects_refusal = node.seed % 2 == 0;
  if (options_.planted_bug == PlantedBug::kFalseReplayAcks) node.link->bug = LinkBug::kFalseAcks;
  if (options_.planted_bug == PlantedBug::kErrorsReadAsEmpty) node.link->bug = LinkBug::kErrorsAsEmpty;
  if (options_.planted_bug == PlantedBug::kReconnectsHidden) node.link->bug = LinkBug::kHidesReconnects;
  links_.push_back(node.link);
  if (ledger_) connect_ledger(node, number);
  node.engine = limiter::Engine::make(
      node.clock, {.origin = node.link,
                   .ledger = node.ledger,
                   .region = region.name,
                   .sync = ledger_ ? ledger_->rules() : SyncRules{},
                   .on_origin_loss = guarantees_.on_origin_loss,
                   .read_deadline = guarantees_.read_deadline,
                   .max_freshness = guarantees_.max_freshness,
                   .replay_within = replay_within_,
                   .capacity = options_.table == TableSize::kSmall ? kSmall : kCapacity,
                   .remote_tuples = static_cast<size_t>(options_.remote_tuples),
                   .seed = node.seed});
  node.process =
      &region.oracle.start_process(node.index, node.engine->incarnation(), node.normal.most_delay);
  node.watcher = std::make_unique<NodeOriginWatcher>(*this, node);
  node.link->watcher = node.watcher.get();
  // This one has seen no other time.
  node.clock.forget_latest();
  if (node.wrong_clock) node.process->wrong_clock_until = WallTime::max();
  node.in_flight = 0;
  node.draining = false;
  node.last_replay = {};
  node.imported = 0;
  node.touched = true;
  ++report_.processes;
  update_connectivity();
  note_disruption();
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
  node.ledger->bug = ledger_bug_of(options_.planted_bug);
  const auto received = std::make_shared<ImportLog>();
  node.received = received;
  node.ledger_watcher = std::make_unique<NodeLedgerWatcher>(*this, received);
  node.ledger->watcher = node.ledger_watcher.get();
  ledger_links_.push_back(node.ledger);
}

void World::end_process(Node& node, ProcessInfo::Exit exit) {
  node.process->ended = Instant{.wall = node.clock.latest(), .mono = timeline_.now().mono};
  node.process->exit = exit;
  stop(node);
  // Its host stays, and another process is begun on it.
  const Millis down = active_ ? Millis(random_.between(0, 2000)) : Millis(0);
  timeline_.post_in(down, [this, &node] {
    if (node.runs() || over_) return;
    cover(Coverage::kRestarted);
    start_process(node);
  });
}

void World::stop(Node& node) {
  report_.evicted += node.engine->stats().evicted;
  const uint64_t no_room = node.engine->sync_stats().no_room;
  report_.no_room += no_room;
  no_room_ = no_room_ || no_room > 0;
  node.executor->die();
  node.link->abandon();
  if (node.ledger) node.ledger->abandon();
  node.received = nullptr;
  node.engine = nullptr;
  node.process = nullptr;
  node.touched = true;
}

// Requests under way keep their engine alive until they are answered or their deadline comes.
void World::release_all() {
  over_ = true;
  active_ = false;
  probing_ = false;
  for_each_node([this](Node& node) {
    if (node.runs()) stop(node);
  });
  const MonoTime end = timeline_.now().mono + 2 * guarantees_.read_deadline;
  while (timeline_.step(end)) {
  }
}

void World::kill(Node& node) {
  Count unacked = 0;
  node.engine->inspect([&](const limiter::CellView& cell) {
    const Components components = region_of(node).origin->components({cell.tuple, cell.sequence});
    const auto mine = components.find({node.process->incarnation, cell.generation});
    const Count acked = mine == components.end() ? 0 : mine->second;
    if (cell.own > acked) unacked += cell.own - acked;
  });
  if (unacked > 0) cover(Coverage::kKilledWithUnackedCounts);
  note("node " + std::to_string(node.index) + " is killed, untold", unacked);
  end_process(node, ProcessInfo::Exit::kKilled);
}

// When the origin has just acknowledged what it told.
void World::maybe_kill_after_ack(Node& node) {
  if (!active_ || !random_.one_in(kAcksPerKill)) return;
  timeline_.post_in(Millis(0), [this, &node, executor = node.executor] {
    if (!active_ || !executor->alive()) return;
    cover(Coverage::kKilledAfterAck);
    kill(node);
  });
}

// Takes no more requests; goes when all is told, and leaves its part to those who stay.
void World::drain(Node& node) {
  note("node " + std::to_string(node.index) + " drains");
  node.draining = true;
  node.idle_since = timeline_.now().mono;
  if (options_.planted_bug == PlantedBug::kDrainCutShort) end_process(node, ProcessInfo::Exit::kDrained);
}

void World::schedule_replay(Node& node, int process) {
  const Millis every = options_.planted_bug == PlantedBug::kReplaysTooSeldom ? kReplaySeldom : kReplayEvery;
  timeline_.post_in(every, [this, &node, process] {
    if (!node.runs() || node.process->number != process) return;
    node.last_replay = node.engine->run_replay(node.clock.now(), *node.executor);
    const bool idle = node.last_replay.done == 0 && node.last_replay.waiting == 0;
    if (node.last_replay.done > 0) node.touched = true;
    const MonoTime now = timeline_.now().mono;
    if (!idle || node.in_flight > 0) node.idle_since = now;
    // What was not acknowledged by its deadline would be waiting again.
    if (node.draining && now - node.idle_since > guarantees_.read_deadline) {
      cover(Coverage::kDrained);
      note("node " + std::to_string(node.index) + " has drained");
      node.engine->run_shutdown(node.clock.now());
      end_process(node, ProcessInfo::Exit::kDrained);
      return;
    }
    schedule_replay(node, process);
  });
}

// As often as the replay. A process that drains writes all it has.
void World::schedule_sync(Node& node, int process) {
  const Millis every = options_.planted_bug == PlantedBug::kSyncsTooSeldom ? kSyncSeldom : kReplayEvery;
  timeline_.post_in(every, [this, &node, process] {
    if (!node.runs() || node.process->number != process) return;
    node.engine->run_sync(node.clock.now(), node.draining ? Flush::kAll : Flush::kDue);
    const uint64_t imported = node.engine->sync_stats().imported;
    if (std::exchange(node.imported, imported) != imported) node.touched = true;
    schedule_sync(node, process);
  });
}

// Tuples whose windows are over are forgotten, and made anew under another generation. Not
// where the clock may be set back into such a window: what a process forgot of it is a
// sibling's then, and the truth keeps only one account for each.
void World::schedule_sweep(Node& node) {
  if (stepping_node_ != nullptr) return;
  node.executor->post_at(timeline_.now().mono + kSweepEvery, [this, &node, executor = node.executor] {
    if (!executor->alive()) return;
    if (node.engine->run_sweep(node.clock.now(), kCapacity).done > 0) cover(Coverage::kTupleExpired);
    schedule_sweep(node);
  });
}

// Says that it lives, and hears how many do; both only while the origin can be reached.
void World::schedule_heartbeat(Node& node) {
  const MonoTime now = timeline_.now().mono;
  if (node.link->faults.connectivity == Connectivity::kUp) {
    node.last_heartbeat = now;
    uint32_t alive = 0;
    uint32_t before = 0;
    for (const auto& other : region_of(node).nodes) {
      if (other->last_heartbeat == MonoTime{} || now - other->last_heartbeat > kHeartbeatTimeout) continue;
      ++alive;
      if (other->index < node.index) ++before;
    }
    node.link->set_live_nodes(alive, before);
  }
  node.executor->post_at(now + kHeartbeatEvery, [this, &node, executor = node.executor] {
    if (executor->alive()) schedule_heartbeat(node);
  });
}

}  // namespace weir::sim
