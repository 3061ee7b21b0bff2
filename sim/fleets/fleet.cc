#include "sim/fleets/fleet.h"

#include <algorithm>
#include <utility>

namespace weir::sim {
namespace {

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
  batches += other.batches;
  rows_read += other.rows_read;
  return *this;
}

LedgerLoad operator-(const LedgerLoad& a, const LedgerLoad& b) {
  return {.rows = a.rows - b.rows,
          .batches = a.batches - b.batches,
          .rows_read = a.rows_read - b.rows_read};
}

Fleet::Fleet(const FleetOptions& options)
    : options_(options),
      plans_(options_.regions),
      timeline_(options.seed),
      random_(options.seed * 0x9e3779b97f4a7c15ULL),
      of_region_(plans_.size()),
      admissions_(longest_delay()),
      loads_(plans_.size()),
      ledger_loads_(plans_.size()) {
  ledger_ = std::make_unique<WatchedLedger>(
      timeline_, options_.settings.sync, [this](const Committed& committed) {
        mix(static_cast<uint64_t>(now().mono.time_since_epoch().count()));
        for (const LedgerRow& row : committed.rows) mix(row.count);
        if (monitor_) monitor_->after_commit(committed);
      });
  if (options_.checks) {
    make_monitor();
  } else {
    ledger_->forget_rows();
  }
  uint32_t most = 0;
  for (uint32_t region = 0; region < regions(); ++region) {
    if (!monitor_) origins_.push_back(std::make_unique<PlainOrigin>(timeline_));
    by_region_name_[plans_[region].name] = region;
    most = std::max(most, plans_[region].nodes);
  }
  // One node for each region in turn.
  for (uint32_t index = 0; index < most; ++index) {
    for (uint32_t region = 0; region < regions(); ++region) {
      if (index >= plans_[region].nodes) continue;
      const auto number = static_cast<uint32_t>(nodes_.size());
      of_region_[region].push_back(number);
      nodes_.push_back(std::make_unique<Node>(
          static_cast<int>(region), static_cast<int>(index),
          NodeClock(timeline_, Millis(0), shapes_of(options_, plans_[region].name, index),
                    random_.next())));
      Node& node = *nodes_.back();
      node.number = number;
      node.normal = normal_origin_link(node);
      if (options_.checks) node.normal.most_delay += options_.checks->extra_origin_delay;
      node.normal_ledger = normal_ledger_link(node);
      if (monitor_) monitor_->add_node(node);
    }
  }
  exact_ = decide::Engine::make(timeline_, {.capacity = size_t{1} << 21, .seed = random_.next()});
  for (const auto& node : nodes_) start_process(*node);
  for (const auto& node : nodes_) heartbeat(*node);
}

// Requests in flight keep their engine alive until they are answered or time out.
Fleet::~Fleet() {
  over_ = true;
  if (monitor_) monitor_->stop();
  for (const auto& node : nodes_) {
    if (node->is_running()) end(*node, ProcessInfo::Exit::kKilled);
  }
  const MonoTime last = timeline_.now().mono + 2 * options_.settings.read_deadline;
  while (timeline_.step(last)) {
  }
}

Node* Fleet::any_of(uint32_t region) {
  const std::vector<uint32_t>& siblings = of_region_[region];
  const size_t first = random_.next() % siblings.size();
  for (size_t i = 0; i < siblings.size(); ++i) {
    Node& node = *nodes_[siblings[(first + i) % siblings.size()]];
    if (node.serves()) return &node;
  }
  return nullptr;
}

void Fleet::send(size_t key, uint32_t region, Count cost) {
  RegionLoad& load = loads_[region];
  ++load.offered;
  Node* const node = any_of(region);
  if (node == nullptr) {
    ++load.unanswered;
    return;
  }
  send_to(*node, key, cost);
}

void Fleet::send_to(Node& node, size_t key, Count cost) {
  const Request request = request_for(admissions_.key(key), cost);
  const Instant requested_at = node.clock.now();
  std::shared_ptr<RequestRecord> record;
  if (monitor_) record = std::make_shared<RequestRecord>(record_of(node, request));
  node.touched = true;
  node.engine->check_async(
      requested_at, request, *node.executor,
      [this, key, &node, cost, requested_at = requested_at.wall, executor = node.executor,
       record = std::move(record)](const Result<Verdict>& verdict) {
        if (!executor->alive()) {
          ++loads_[node.region].unanswered;
          return;
        }
        answer({.key = key,
                .node = node.number,
                .region = static_cast<uint32_t>(node.region),
                .cost = cost,
                .requested_at = requested_at,
                .verdict = *verdict});
        if (record) check_answer(node, std::move(*record), *verdict);
      });
}

// Counts every admission at once in one exact limiter, which then knows whether the request fits.
// Above the limit it counts without a limit; paced algorithms cannot be counted that way.
bool Fleet::exact_had_capacity(const FleetAnswer& answer) {
  const FleetKey& key = admissions_.key(answer.key);
  const Instant now = timeline_.now();
  if (!answer.verdict.admitted() || answer.cost == 0) {
    return exact_->check(now, request_for(key, 0))->remaining >= answer.cost;
  }
  Request counted = request_for(key, answer.cost);
  if (exact_->check(now, counted)->admitted()) return true;
  const bool paced = key.algorithm == Algorithm::kGcra || key.algorithm == Algorithm::kTokenBucket;
  if (paced) return false;
  counted.limit = key.algorithm == Algorithm::kSlidingLog ? kMaxLogLimit : kMaxLimit;
  static_cast<void>(exact_->check(now, counted));
  return false;
}

void Fleet::answer(const FleetAnswer& answer) {
  RegionLoad& load = loads_[answer.region];
  const bool admitted = answer.verdict.admitted();
  const bool had_capacity = exact_had_capacity(answer);
  const AdmissionLog::Moment moment{
      .region = answer.region,
      .requested_at = answer.requested_at,
      .now = timeline_.now().mono,
      .bound = sync_stats(answer.node).bound_of({}, admissions_.key(answer.key).ns)};
  if (admitted) {
    ++load.admitted;
    admissions_.admit(answer.key, moment, answer.cost);
  } else {
    ++load.denied;
    load.false_denials += had_capacity;
    admissions_.refuse(answer.key, moment, answer.cost);
  }
  load.degraded += answer.verdict.basis == Basis::kDegraded;
  mix(static_cast<uint64_t>(moment.now.time_since_epoch().count()));
  mix(answer.key * 2 + admitted);
  mix(answer.verdict.remaining);
  if (on_answer_) on_answer_(answer);
}

void Fleet::send_once(const FleetKey& key, uint32_t region) {
  RegionLoad& load = loads_[region];
  ++load.offered;
  Node* const node = any_of(region);
  if (node == nullptr) {
    ++load.unanswered;
    return;
  }
  const Request request = request_for(key, 1);
  std::shared_ptr<RequestRecord> record;
  if (monitor_) record = std::make_shared<RequestRecord>(record_of(*node, request));
  node->touched = true;
  node->engine->check_async(node->clock.now(), request, *node->executor,
                            [this, &load, node, executor = node->executor,
                             record = std::move(record)](const Result<Verdict>& verdict) {
                              ++(verdict->admitted() ? load.admitted : load.denied);
                              load.degraded += verdict->basis == Basis::kDegraded;
                              if (record && executor->alive()) {
                                check_answer(*node, std::move(*record), *verdict);
                              }
                            });
}

void Fleet::run_for(Millis span, const std::function<void()>& each) {
  each_ = &each;
  const Millis last = elapsed_ + span;
  while (elapsed_ < last) {
    const MonoTime next = timeline_.now().mono + Millis(1);
    timeline_.post_at(next, [this] { tick(); });
    const Millis before = elapsed_;
    while (elapsed_ == before && timeline_.step(next)) {
      ++events_;
      if (monitor_) monitor_->after_event();
    }
  }
}

void Fleet::tick() {
  if (over_) return;
  const auto now = static_cast<size_t>(elapsed_.count());
  const auto period = static_cast<size_t>(kIteration.count());
  for (size_t i = now % period; i < nodes_.size(); i += period) {
    if (nodes_[i]->is_running()) run_iteration(*nodes_[i]);
  }
  const auto heartbeat_every = static_cast<size_t>(kHeartbeatEvery.count());
  for (size_t i = now % heartbeat_every; i < nodes_.size(); i += heartbeat_every) {
    if (nodes_[i]->is_running()) heartbeat(*nodes_[i]);
  }
  if (monitor_ && elapsed_ % Monitor::kAuditEvery == Millis(0)) audit();
  (*each_)();
  ++elapsed_;
}

void Fleet::begin_measuring() {
  admissions_.begin_measuring(timeline_.now().wall);
  sync_time_ = {};
}

LedgerLoad Fleet::load() const {
  LedgerLoad sum;
  for (const LedgerLoad& load : ledger_loads_) sum += load;
  return sum;
}

SyncStats Fleet::sync_stats(uint32_t number) const {
  const Node& node = *nodes_[number];
  return node.is_running() ? node.engine->sync_stats() : SyncStats{};
}

Millis Fleet::longest_delay() const {
  DelayInputs inputs{.acked_within = options_.settings.replay_within + 2 * kIteration};
  for (const RegionPlan& plan : plans_) {
    inputs.to_origin = std::max(inputs.to_origin, plan.to_origin.to);
    inputs.to_ledger = std::max(inputs.to_ledger, plan.to_ledger.to);
  }
  return std::chrono::ceil<Millis>(delays_of(options_.settings.sync, inputs).total());
}

}  // namespace weir::sim
