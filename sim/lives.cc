// Life and death of the world's processes.

#include <algorithm>
#include <utility>

#include "sim/world.h"

namespace weir::sim {

namespace {

constexpr Millis kReplaySeldom{1000};
constexpr Millis kSharesSeldom{2000};
constexpr Millis kSweepEvery{700};
constexpr size_t kCapacity = 64;
constexpr size_t kScarce = 1;  // a table has some slots more
constexpr int64_t kTellsPerKill = 40;
// As the origin in Redis has it: who was not heard of for so long is not counted.
constexpr Millis kBeatEvery{1000};
constexpr Millis kAlive{3000};

LedgerLies lies_of(Plant plant) {
  switch (plant) {
    case Plant::kForeignPublished: return LedgerLies::kAddsForeign;
    case Plant::kOwnRowAsForeign: return LedgerLies::kOwnAsForeign;
    case Plant::kNewsSummed: return LedgerLies::kSumsNews;
    case Plant::kLeaseForgotten: return LedgerLies::kForgetsLease;
    case Plant::kRegionsUnderestimated: return LedgerLies::kHidesRegions;
    case Plant::kLimitsNotReceived: return LedgerLies::kHidesLimits;
    case Plant::kRowsPretended: return LedgerLies::kPretends;
    case Plant::kNewsDropped: return LedgerLies::kDropsNews;
    default: return LedgerLies::kNone;
  }
}

}  // namespace

// Shows to the checkers what leaves and reaches one process.
class World::Watcher final : public LinkWatcher {
 public:
  Watcher(World& world, Node& node) : world_(world), node_(node), life_(*node.life) {}

  void trouble() override {
    life_.troubles.push_back(world_.timeline_.now().mono);
    world_.note_trouble();
  }
  void reconnected() override {
    const int life = life_.number;
    check([&](Checker& checker) { return checker.after_reconnect(view(), life); });
  }
  void sent(uint64_t message, const std::vector<CellReplay>& cells) override {
    const Sent sent{.life = life_.number, .message = message, .cells = cells};
    check([&](Checker& checker) { return checker.after_sent(view(), sent); });
  }
  void received(uint64_t message, const std::vector<CellReplay>& cells,
                const Result<std::vector<CellTotals>>& totals) override {
    node_.touched = true;
    const ReceivedReplay received{
        .sent = {.life = life_.number, .message = message, .cells = cells}, .totals = totals};
    check([&](Checker& checker) { return checker.after_received(view(), received); });
    if (totals.ok() && world_.options_.kills_after_telling) world_.consider_killing(node_);
  }
  void received(const std::vector<CellRead>& cells,
                const Result<std::vector<CellTotals>>& totals) override {
    node_.touched = true;
    const ReceivedRead received{.life = life_.number, .cells = cells, .totals = totals};
    check([&](Checker& checker) { return checker.after_received(view(), received); });
  }

 private:
  void check(const std::function<Checker::Fault(Checker&)>& ask) {
    world_.check(world_.region_of(node_), ask);
  }
  [[nodiscard]] WorldView view() const { return world_.view(world_.region_of(node_)); }

  World& world_;
  Node& node_;
  Life& life_;
};

// The same for the ledger.
class World::AbroadWatcher final : public LedgerWatcher {
 public:
  AbroadWatcher(World& world, std::shared_ptr<Received> received)
      : world_(world), received_(std::move(received)) {}

  void trouble() override { world_.note_trouble(); }
  void blamed(const LedgerNews& news) override {
    for (const LedgerRow& row : news.rows) world_.blamed_.insert(tuple_of(row.key));
  }
  void received(const LedgerNews& news) override {
    for (const LedgerRow& row : news.rows) {
      Received::Row& known = received_->rows[{cell_of(row), row.region}];
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
  const std::shared_ptr<Received> received_;
};

void World::begin_life(Node& node) {
  const bool same_name = options_.plant == Plant::kSameIncarnation && node.seed != 0;
  if (!same_name) node.seed = random_.next();
  Region& region = region_of(node);
  const int number = static_cast<int>(region.truth.lives().size());
  node.process = std::make_shared<Process>(timeline_, [&node] { node.touched = true; });
  node.link =
      std::make_shared<LossyLink>(timeline_, region.origin->door_of(number), random_.next());
  node.link->faults = node.usual;
  node.link->notices = node.seed % 2 == 0;
  if (options_.plant == Plant::kLinkPretends) node.link->lies = Lies::kPretends;
  if (options_.plant == Plant::kLinkFailsAsEmpty) node.link->lies = Lies::kFailsAsEmpty;
  if (options_.plant == Plant::kLinkHidesEpochs) node.link->lies = Lies::kHidesEpochs;
  links_.push_back(node.link);
  if (ledger_) connect_ledger(node, number);
  node.engine = decide::Engine::make(
      node.clock, {.origin = node.link,
                   .ledger = node.ledger,
                   .region = region.name,
                   .sync = ledger_ ? ledger_->rules() : SyncRules{},
                   .on_origin_loss = promises_.on_origin_loss,
                   .read_deadline = promises_.read_deadline,
                   .max_freshness = promises_.max_freshness,
                   .replay_within = replay_within_,
                   .capacity = options_.room == Room::kScarce ? kScarce : kCapacity,
                   .remote_tuples = static_cast<size_t>(options_.remote_tuples),
                   .seed = node.seed});
  node.life =
      &region.truth.begin_life(node.index, node.engine->incarnation(), node.usual.most_delay);
  node.watcher = std::make_unique<Watcher>(*this, node);
  node.link->watcher = node.watcher.get();
  // This one has seen no other time.
  node.clock.forget_latest();
  if (node.astray) node.life->astray_until = WallTime::max();
  node.under_way = 0;
  node.draining = false;
  node.last_replay = {};
  node.imported = 0;
  node.touched = true;
  ++report_.lives;
  set_reach();
  note_trouble();
  schedule_replay(node, number);
  if (ledger_) schedule_sync(node, number);
  schedule_beat(node);
  schedule_sweep(node);
  note("process " + std::to_string(number) + " begins on node " + std::to_string(node.index) +
       (ledger_ ? " of " + region.name : ""));
}

void World::connect_ledger(Node& node, int life) {
  const LedgerUser user{
      .region = node.region, .node = node.index, .life = life, .name = region_of(node).name};
  node.ledger = std::make_shared<LedgerLink>(timeline_, *ledger_, user, random_.next());
  node.ledger->faults = node.usual_ledger;
  node.ledger->notices = node.seed % 3 == 0;
  node.ledger->lies = lies_of(options_.plant);
  const auto received = std::make_shared<Received>();
  node.received = received;
  node.ledger_watcher = std::make_unique<AbroadWatcher>(*this, received);
  node.ledger->watcher = node.ledger_watcher.get();
  ledger_links_.push_back(node.ledger);
}

void World::end_life(Node& node, Life::End how) {
  node.life->ended = Instant{.wall = node.clock.latest(), .mono = timeline_.now().mono};
  node.life->how = how;
  stop(node);
  // Its host stays, and another process is begun on it.
  const Millis down = stormy_ ? Millis(random_.between(0, 2000)) : Millis(0);
  timeline_.post_in(down, [this, &node] {
    if (node.runs() || over_) return;
    mark(Mark::kRestarted);
    begin_life(node);
  });
}

void World::stop(Node& node) {
  report_.evicted += node.engine->stats().evicted;
  const uint64_t no_room = node.engine->sync_stats().no_room;
  report_.no_room += no_room;
  no_room_ = no_room_ || no_room > 0;
  node.process->die();
  node.link->abandon();
  if (node.ledger) node.ledger->abandon();
  node.received = nullptr;
  node.engine = nullptr;
  node.life = nullptr;
  node.touched = true;
}

// Requests under way keep their engine alive until they are answered or their deadline comes.
void World::let_go() {
  over_ = true;
  stormy_ = false;
  asking_ = false;
  for_each_node([this](Node& node) {
    if (node.runs()) stop(node);
  });
  const MonoTime end = timeline_.now().mono + 2 * promises_.read_deadline;
  while (timeline_.step(end)) {
  }
}

void World::kill(Node& node) {
  Count unacked = 0;
  node.engine->inspect([&](const decide::CellView& cell) {
    const Components components = region_of(node).origin->components({cell.tuple, cell.sequence});
    const auto mine = components.find({node.life->incarnation, cell.generation});
    const Count acked = mine == components.end() ? 0 : mine->second;
    if (cell.own > acked) unacked += cell.own - acked;
  });
  if (unacked > 0) mark(Mark::kKilledWithUnackedCounts);
  note("node " + std::to_string(node.index) + " is killed, untold", unacked);
  end_life(node, Life::End::kKilled);
}

// When the origin has just acknowledged what it told.
void World::consider_killing(Node& node) {
  if (!stormy_ || !random_.one_in(kTellsPerKill)) return;
  timeline_.post_in(Millis(0), [this, &node, process = node.process] {
    if (!stormy_ || !process->alive()) return;
    mark(Mark::kKilledAfterTelling);
    kill(node);
  });
}

// Takes no more requests; goes when all is told, and leaves its part to those who stay.
void World::drain(Node& node) {
  note("node " + std::to_string(node.index) + " drains");
  node.draining = true;
  node.idle_since = timeline_.now().mono;
  if (options_.plant == Plant::kDrainCutShort) end_life(node, Life::End::kDrained);
}

void World::schedule_replay(Node& node, int life) {
  const Millis every = options_.plant == Plant::kTellsTooSeldom ? kReplaySeldom : kReplayEvery;
  timeline_.post_in(every, [this, &node, life] {
    if (!node.runs() || node.life->number != life) return;
    node.last_replay = node.engine->run_replay(node.clock.now(), *node.process);
    const bool idle = node.last_replay.done == 0 && node.last_replay.waiting == 0;
    if (node.last_replay.done > 0) node.touched = true;
    const MonoTime now = timeline_.now().mono;
    if (!idle || node.under_way > 0) node.idle_since = now;
    // What was not acknowledged by its deadline would be waiting again.
    if (node.draining && now - node.idle_since > promises_.read_deadline) {
      mark(Mark::kDrained);
      note("node " + std::to_string(node.index) + " has drained");
      node.engine->run_shutdown(node.clock.now());
      end_life(node, Life::End::kDrained);
      return;
    }
    schedule_replay(node, life);
  });
}

// As often as the replay. A process that drains writes all it has.
void World::schedule_sync(Node& node, int life) {
  const Millis every = options_.plant == Plant::kSharesTooSeldom ? kSharesSeldom : kReplayEvery;
  timeline_.post_in(every, [this, &node, life] {
    if (!node.runs() || node.life->number != life) return;
    node.engine->run_sync(node.clock.now(), node.draining ? Flush::kAll : Flush::kDue);
    const uint64_t imported = node.engine->sync_stats().imported;
    if (std::exchange(node.imported, imported) != imported) node.touched = true;
    schedule_sync(node, life);
  });
}

// Tuples whose windows are over are forgotten, and made anew under another generation. Not
// where the clock may be set back into such a window: what a process forgot of it is a
// sibling's then, and the truth keeps only one account for each.
void World::schedule_sweep(Node& node) {
  if (unsteady_ != nullptr) return;
  node.process->post_at(timeline_.now().mono + kSweepEvery, [this, &node, process = node.process] {
    if (!process->alive()) return;
    if (node.engine->run_sweep(node.clock.now(), kCapacity).done > 0) mark(Mark::kTupleForgotten);
    schedule_sweep(node);
  });
}

// Says that it lives, and hears how many do; both only while the origin can be reached.
void World::schedule_beat(Node& node) {
  const MonoTime now = timeline_.now().mono;
  if (node.link->faults.road == Road::kOpen) {
    node.last_beat = now;
    uint32_t alive = 0;
    uint32_t before = 0;
    for (const auto& other : region_of(node).nodes) {
      if (other->last_beat == MonoTime{} || now - other->last_beat > kAlive) continue;
      ++alive;
      if (other->index < node.index) ++before;
    }
    node.link->hear_live_nodes(alive, before);
  }
  node.process->post_at(now + kBeatEvery, [this, &node, process = node.process] {
    if (process->alive()) schedule_beat(node);
  });
}

}  // namespace weir::sim
