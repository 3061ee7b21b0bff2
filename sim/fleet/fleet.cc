#include "sim/fleet/fleet.h"

#include <algorithm>
#include <utility>

namespace weir::sim {
namespace {

// As the origin in Redis has it: who was not heard of for so long is not counted.
constexpr Millis kBeatEvery{1000};
constexpr Millis kAlive{3000};

std::vector<ClockShape> shapes_of(const FleetOptions& options, const std::string& region,
                                  uint32_t index) {
  const std::string name = region + "/" + std::to_string(index);
  std::vector<ClockShape> shapes;
  for (const ClockShape& shape : options.clocks) {
    if (shape.where.empty() || shape.where == region || shape.where == name) {
      shapes.push_back(shape);
    }
  }
  return shapes;
}

}  // namespace

LedgerLoad& LedgerLoad::operator+=(const LedgerLoad& other) {
  rows += other.rows;
  presences += other.presences;
  rows_read += other.rows_read;
  return *this;
}

LedgerLoad operator-(const LedgerLoad& a, const LedgerLoad& b) {
  return {.rows = a.rows - b.rows,
          .presences = a.presences - b.presences,
          .rows_read = a.rows_read - b.rows_read};
}

class Fleet::OriginWatcher final : public LinkWatcher {
 public:
  explicit OriginWatcher(RegionLoad& load) : load_(load) {}
  void asked(size_t cells) override { load_.origin_commands += cells; }
  void acked(size_t cells) override { load_.origin_commands += cells; }
  void sent(uint64_t /*message*/, const std::vector<CellReplay>& cells) override {
    load_.origin_commands += 2 * cells.size();
  }

 private:
  RegionLoad& load_;
};

class Fleet::AbroadWatcher final : public LedgerWatcher {
 public:
  AbroadWatcher(Fleet& fleet, const FleetNode& node)
      : fleet_(fleet), node_(node), load_(fleet.ledger_loads_[node.region]) {}

  void sent(const LedgerNews& news) override {
    load_.rows += news.rows.size();
    load_.presences += news.presences.size();
    for (const LedgerRow& row : news.rows) {
      fleet_.account_.send(node_.region, row, fleet_.now().mono);
    }
  }
  // A process uses what it hears from its next turn on.
  void received(const LedgerNews& news) override {
    load_.rows_read += news.rows.size() + news.presences.size();
    if (node_.number >= std::max(kListeners, fleet_.regions())) return;
    const auto period = static_cast<uint64_t>(kTurn.count());
    const auto now = static_cast<uint64_t>(fleet_.elapsed_.count()) % period;
    const uint64_t to_turn = (node_.number % period + period - now) % period;
    const Account::Hearer hearer{.process = node_.number,
                                 .region = node_.region,
                                 .uses_it = fleet_.now().mono + Millis(to_turn)};
    for (const LedgerRow& row : news.rows) {
      fleet_.account_.hear(hearer, fleet_.by_region_name_.at(row.region), row);
    }
  }

 private:
  Fleet& fleet_;
  const FleetNode& node_;
  LedgerLoad& load_;
};

Fleet::Fleet(const FleetOptions& options)
    : options_(options),
      plans_(options_.regions),
      timeline_(options.seed),
      random_(options.seed * 0x9e3779b97f4a7c15ULL),
      of_region_(plans_.size()),
      account_(longest_delay()),
      loads_(plans_.size()),
      ledger_loads_(plans_.size()) {
  ledger_ = std::make_unique<WatchedLedger>(
      timeline_, options_.settings.sync, [this](const Committed& committed) {
        mix(static_cast<uint64_t>(now().mono.time_since_epoch().count()));
        for (const LedgerRow& row : committed.news.rows) mix(row.count);
      });
  uint32_t most = 0;
  for (uint32_t region = 0; region < regions(); ++region) {
    origins_.push_back(std::make_shared<origins::InProcessOrigin>(timeline_));
    by_region_name_[plans_[region].name] = region;
    most = std::max(most, plans_[region].nodes);
  }
  // Dealt in turn.
  for (uint32_t index = 0; index < most; ++index) {
    for (uint32_t region = 0; region < regions(); ++region) {
      if (index >= plans_[region].nodes) continue;
      const auto number = static_cast<uint32_t>(nodes_.size());
      of_region_[region].push_back(number);
      nodes_.push_back(std::make_unique<FleetNode>(
          number, region,
          NodeClock(timeline_, shapes_of(options_, plans_[region].name, index), random_.next())));
    }
  }
  exact_ = decide::Engine::make(timeline_, {.capacity = size_t{1} << 21, .seed = random_.next()});
  for (const auto& node : nodes_) begin(*node);
  for (const auto& node : nodes_) beat(*node);
}

// Requests under way keep their engine alive until they are answered or given up.
Fleet::~Fleet() {
  over_ = true;
  for (const auto& node : nodes_) {
    if (node->runs()) end(*node);
  }
  const MonoTime last = timeline_.now().mono + 2 * options_.settings.read_deadline;
  while (timeline_.step(last)) {
  }
}

void Fleet::begin(FleetNode& node) {
  const RegionPlan& plan = plans_[node.region];
  const FleetSettings& settings = options_.settings;
  node.state = FleetNode::State::kServes;
  ++node.lives;
  node.origin = std::make_shared<LossyLink>(timeline_, origins_[node.region], random_.next());
  node.origin->faults = usual_way_to_origin(node);
  node.origin->notices = true;
  node.origin_watcher = std::make_unique<OriginWatcher>(loads_[node.region]);
  node.origin->watcher = node.origin_watcher.get();
  links_.push_back(node.origin);
  if (settings.ledger) {
    const LedgerUser user{.region = static_cast<int>(node.region),
                          .node = static_cast<int>(node.number),
                          .life = static_cast<int>(node.lives),
                          .name = plan.name};
    node.ledger = std::make_shared<LedgerLink>(timeline_, *ledger_, user, random_.next());
    node.ledger->faults = usual_way_to_ledger(node);
    node.ledger->notices = true;
    node.ledger_watcher = std::make_unique<AbroadWatcher>(*this, node);
    node.ledger->watcher = node.ledger_watcher.get();
    ledger_links_.push_back(node.ledger);
  }
  node.engine = decide::Engine::make(node.clock, {.origin = node.origin,
                                                  .ledger = node.ledger,
                                                  .region = plan.name,
                                                  .sync = settings.sync,
                                                  .on_origin_loss = settings.on_origin_loss,
                                                  .read_deadline = settings.read_deadline,
                                                  .max_freshness = settings.max_freshness,
                                                  .replay_within = settings.replay_within,
                                                  .capacity = settings.capacity,
                                                  .seed = random_.next()});
  node.last_beat = timeline_.now().mono;
}

void Fleet::end(FleetNode& node) {
  node.state = FleetNode::State::kGone;
  node.origin->abandon();
  if (node.ledger) node.ledger->abandon();
  node.engine = nullptr;
}

void Fleet::kill(FleetNode& node) {
  if (!node.runs()) return;
  const uint64_t incarnation = node.engine->incarnation();
  node.engine->inspect([&](const decide::CellView& cell) {
    const auto components = origins_[node.region]->components({cell.tuple, cell.sequence});
    const auto mine = components.find({incarnation, cell.generation});
    const Count acked = mine == components.end() ? 0 : mine->second;
    if (cell.own > acked) lost_with_nodes_ += cell.own - acked;
  });
  end(node);
}

void Fleet::drain(FleetNode& node) {
  if (node.state != FleetNode::State::kServes) return;
  node.state = FleetNode::State::kDrains;
  node.idle_since = timeline_.now().mono;
}

LinkFaults Fleet::usual_way_to_origin(const FleetNode& node) const {
  const RegionPlan& plan = plans_[node.region];
  return {.least_delay = plan.to_origin.from, .most_delay = plan.to_origin.to};
}

LedgerFaults Fleet::usual_way_to_ledger(const FleetNode& node) const {
  const RegionPlan& plan = plans_[node.region];
  return {.least_delay = plan.to_ledger.from, .most_delay = plan.to_ledger.to};
}

FleetNode* Fleet::any_of(uint32_t region) {
  const std::vector<uint32_t>& siblings = of_region_[region];
  const size_t first = random_.next() % siblings.size();
  for (size_t i = 0; i < siblings.size(); ++i) {
    FleetNode& node = *nodes_[siblings[(first + i) % siblings.size()]];
    if (node.state == FleetNode::State::kServes) return &node;
  }
  return nullptr;
}

void Fleet::ask(size_t key, uint32_t region, Count cost) {
  RegionLoad& load = loads_[region];
  ++load.offered;
  const Request request = request_for(account_.key(key), cost);
  FleetNode* const node = any_of(region);
  if (node == nullptr) {
    ++load.unanswered;
    return;
  }
  const Instant asked = node->clock.now();
  node->engine->check_async(asked, request, timeline_,
                            [this, key, node, cost, asked = asked.wall,
                             life = node->lives](const Result<Verdict>& verdict) {
                              if (!node->runs() || node->lives != life) {
                                ++loads_[node->region].unanswered;
                                return;
                              }
                              answer({.key = key,
                                      .node = node->number,
                                      .region = node->region,
                                      .cost = cost,
                                      .asked = asked,
                                      .verdict = *verdict});
                            });
}

// What is admitted is counted at once by one who knows everything, so he can say whether there was
// room. Beyond the limit he counts by having none; what is paced cannot be counted so.
bool Fleet::has_room(const FleetAnswer& answer) {
  const FleetKey& key = account_.key(answer.key);
  const Instant now = timeline_.now();
  const bool room = exact_->check(now, request_for(key, 0))->remaining >= answer.cost;
  if (!answer.verdict.admitted() || answer.cost == 0) return room;
  Request counted = request_for(key, answer.cost);
  const bool paced = key.algorithm == Algorithm::kGcra || key.algorithm == Algorithm::kTokenBucket;
  if (!room && !paced) {
    counted.limit = key.algorithm == Algorithm::kSlidingLog ? kMaxLogLimit : kMaxLimit;
  }
  static_cast<void>(exact_->check(now, counted));
  return room;
}

void Fleet::answer(const FleetAnswer& answer) {
  RegionLoad& load = loads_[answer.region];
  const bool admitted = answer.verdict.admitted();
  const bool room = has_room(answer);
  const Account::Moment moment{.region = answer.region,
                               .asked = answer.asked,
                               .now = timeline_.now().mono,
                               .bound = sync_stats(answer.node).bound};
  if (admitted) {
    ++load.admitted;
    account_.admit(answer.key, moment, answer.cost);
  } else {
    ++load.denied;
    load.false_denials += room;
    account_.refuse(answer.key, moment, answer.cost);
  }
  load.degraded += answer.verdict.basis == Basis::kDegraded;
  mix(static_cast<uint64_t>(moment.now.time_since_epoch().count()));
  mix(answer.key * 2 + admitted);
  mix(answer.verdict.remaining);
  if (on_answer_) on_answer_(answer);
}

void Fleet::ask_once(const FleetKey& key, uint32_t region) {
  RegionLoad& load = loads_[region];
  ++load.offered;
  FleetNode* const node = any_of(region);
  if (node == nullptr) {
    ++load.unanswered;
    return;
  }
  node->engine->check_async(node->clock.now(), request_for(key, 1), timeline_,
                            [&load](const Result<Verdict>& verdict) {
                              ++(verdict->admitted() ? load.admitted : load.denied);
                              load.degraded += verdict->basis == Basis::kDegraded;
                            });
}

void Fleet::run_for(Millis span, const std::function<void()>& each) {
  each_ = &each;
  const Millis last = elapsed_ + span;
  while (elapsed_ < last) {
    const MonoTime next = timeline_.now().mono + Millis(1);
    timeline_.post_at(next, [this] { tick(); });
    const Millis before = elapsed_;
    while (elapsed_ == before && timeline_.step(next)) ++events_;
  }
}

void Fleet::tick() {
  if (over_) return;
  const auto now = static_cast<size_t>(elapsed_.count());
  const auto period = static_cast<size_t>(kTurn.count());
  for (size_t i = now % period; i < nodes_.size(); i += period) {
    if (nodes_[i]->runs()) take_turn(*nodes_[i]);
  }
  const auto beat_every = static_cast<size_t>(kBeatEvery.count());
  for (size_t i = now % beat_every; i < nodes_.size(); i += beat_every) {
    if (nodes_[i]->runs()) beat(*nodes_[i]);
  }
  (*each_)();
  ++elapsed_;
}

void Fleet::take_turn(FleetNode& node) {
  // All of a table in about ten seconds.
  const size_t slots = options_.settings.capacity / 500;
  const Instant now = node.clock.now();
  const bool drains = node.state == FleetNode::State::kDrains;
  const WorkReport acked =
      node.engine->run_replay(now, timeline_, drains ? Flush::kAll : Flush::kDue);
  const bool timed = account_.measuring() && options_.stopwatch != nullptr;
  const Nanos before = timed ? options_.stopwatch() : Nanos(0);
  node.engine->run_sync(now, drains ? Flush::kAll : Flush::kDue);
  if (timed) sync_time_ += options_.stopwatch() - before;
  node.engine->run_sweep(now, slots);
  if (drains) go_on_draining(node, acked);
}

// Gone once nothing was left to tell for as long as a request may wait.
void Fleet::go_on_draining(FleetNode& node, const WorkReport& acked) {
  const MonoTime now = timeline_.now().mono;
  if (acked.done > 0 || acked.waiting > 0) node.idle_since = now;
  if (now - node.idle_since <= options_.settings.read_deadline) return;
  node.engine->run_shutdown(node.clock.now());
  end(node);
}

// Says that it lives, and hears how many do, and how many of those come before it; both only while
// the origin can be reached.
void Fleet::beat(FleetNode& node) {
  if (node.origin->faults.road != Road::kOpen) return;
  const MonoTime now = timeline_.now().mono;
  node.last_beat = now;
  uint32_t alive = 0;
  uint32_t before = 0;
  for (const uint32_t number : of_region_[node.region]) {
    const FleetNode& other = *nodes_[number];
    if (other.lives == 0 || now - other.last_beat > kAlive) continue;
    ++alive;
    if (number < node.number) ++before;
  }
  node.origin->hear_live_nodes(alive, before);
}

void Fleet::begin_measuring() {
  account_.begin_measuring(timeline_.now().wall);
  sync_time_ = {};
}

LedgerLoad Fleet::load() const {
  LedgerLoad sum;
  for (const LedgerLoad& load : ledger_loads_) sum += load;
  return sum;
}

SyncStats Fleet::sync_stats(uint32_t number) const {
  const FleetNode& node = *nodes_[number];
  return node.runs() ? node.engine->sync_stats() : SyncStats{};
}

Millis Fleet::longest_delay() const {
  Millis to_origin{0};
  Millis to_ledger{0};
  bool have_siblings = false;
  for (const RegionPlan& plan : plans_) {
    to_origin = std::max(to_origin, plan.to_origin.to);
    to_ledger = std::max(to_ledger, plan.to_ledger.to);
    have_siblings = have_siblings || plan.nodes > 1;
  }
  const SyncRules& rules = options_.settings.sync;
  const auto with_jitter = [](Millis every) { return every + every / 5 + kTurn; };
  const Millis there_and_back = 2 * to_ledger + kTurn;
  const Millis round = with_jitter(rules.publish_every);
  const Millis import = std::max(with_jitter(rules.import_every), there_and_back);
  Millis longest = round + to_ledger + import + there_and_back;
  if (have_siblings) {
    // The others of the region hear of it, wait for the one who should go first, and ask.
    const Millis received = options_.settings.replay_within + kTurn + 2 * to_origin;
    const Millis asked = 2 * to_origin + kTurn + round;
    longest += received + round + std::max(rules.publish_every, there_and_back) + asked;
  }
  return longest;
}

}  // namespace weir::sim
