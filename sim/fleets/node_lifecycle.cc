// How the processes of a fleet start, run and end.

#include <algorithm>
#include <utility>

#include "global/bridge_codec.h"
#include "global/ledger_key.h"
#include "sim/checkers/node_watchers.h"
#include "sim/fleets/fleet.h"

namespace weir::sim {

// Counts the commands that a node sends to its origin, and shows it the messages of the bridge.
class Fleet::OriginWatcher final : public LinkWatcher {
 public:
  explicit OriginWatcher(RegionLoad& load) : load_(load) {}
  void disrupted() override {
    if (checked) checked->disrupted();
  }
  void reconnected() override {
    if (checked) checked->reconnected();
  }
  void reading(size_t cells) override { load_.origin_commands += cells; }
  [[nodiscard]] bool reads_steps() const override { return checked != nullptr; }
  void steps_sent(size_t cells) override { load_.origin_commands += cells; }
  void bridge_disrupted() override {
    if (checked) checked->bridge_disrupted();
  }
  void bridge_sent(BridgeStep step, size_t entries) override {
    load_.bridge_commands += entries;
    if (step == BridgeStep::kUpdateTuples) load_.bridge_updates += entries;
  }
  void granted(bool ours) override {
    if (checked) checked->granted(ours);
  }
  void notified(const BridgeMessage& message) override {
    load_.message_bytes += message.body.size();
    if (checked) checked->notified(message);
    if (on_message) on_message(message);
  }
  void sent(uint64_t message, const std::vector<CellReplay>& cells) override {
    load_.origin_commands += 2 * cells.size();
    if (checked) checked->sent(message, cells);
  }
  void stepping(uint64_t message, const std::vector<CellReplay>& cells) override {
    load_.origin_commands += cells.size();
    if (checked) checked->stepping(message, cells);
  }
  void received(uint64_t message, const std::vector<CellReplay>& cells,
                const Result<std::vector<CellTotals>>& totals) override {
    if (checked) checked->received(message, cells, totals);
  }
  void received(const std::vector<CellRead>& cells,
                const Result<std::vector<CellTotals>>& totals) override {
    if (checked) checked->received(cells, totals);
  }

  std::unique_ptr<CheckedOriginWatcher> checked;  // none: nothing is checked
  std::function<void(const BridgeMessage&)> on_message;

 private:
  RegionLoad& load_;
};

// Counts the rows that a node writes and reads.
class Fleet::LedgerLoadWatcher final : public LedgerWatcher {
 public:
  LedgerLoadWatcher(Fleet& fleet, const Node& node)
      : fleet_(fleet), node_(node), load_(fleet.ledger_loads_[node.region]) {}

  void disrupted() override {
    if (checked) checked->disrupted();
  }
  void rejected(const std::vector<LedgerRow>& rows) override {
    if (checked) checked->rejected(rows);
  }
  void sent(const std::vector<LedgerRow>& rows) override {
    ++load_.batches;
    load_.rows += rows.size();
    for (const LedgerRow& row : rows) {
      fleet_.admissions_.send(static_cast<uint32_t>(node_.region), row, fleet_.now().mono);
    }
  }
  void received(const std::vector<LedgerRow>& rows) override { load_.rows_read += rows.size(); }

  std::unique_ptr<CheckedLedgerWatcher> checked;  // none: nothing is checked

 private:
  Fleet& fleet_;
  const Node& node_;
  LedgerLoad& load_;
};

// Measures how long counts of other regions take. A process uses them from its next iteration on.
void Fleet::measure_delays(const Node& node, const BridgeMessage& message) {
  const uint32_t sampled = nodes() > kMaxSampledNodes ? regions() : nodes();
  if (!admissions_.measuring() || node.number >= sampled) return;
  const auto notice = global::decode_notice(message.body);
  if (!notice) return;
  const auto period = static_cast<uint64_t>(kIteration.count());
  const auto now = static_cast<uint64_t>(elapsed_.count()) % period;
  const uint64_t to_iteration = (node.number % period + period - now) % period;
  const AdmissionLog::Receiver receiver{.process = node.number,
                                        .region = static_cast<uint32_t>(node.region),
                                        .usable_at = timeline_.now().mono + Millis(to_iteration)};
  for (const global::TupleChange& change : notice->changes) {
    const LedgerKey key = global::ledger_key_of(change.tuple);
    for (const RegionCount& count : change.counts) {
      admissions_.receive(
          receiver, by_region_name_.at(count.region),
          {.key = key, .sequence = count.sequence, .region = count.region, .count = count.count});
    }
  }
}

void Fleet::start_process(Node& node) {
  const RegionPlan& plan = plans_[node.region];
  const FleetSettings& settings = options_.settings;
  const int process =
      monitor_ ? static_cast<int>(monitor_->oracle(node.region).processes().size()) : 0;
  node.draining = false;
  node.executor = std::make_shared<ProcessExecutor>(timeline_, [&node] { node.touched = true; });
  executors_.push_back(node.executor);
  node.link = std::make_shared<OriginLink>(timeline_, origins_[node.region]->endpoint_of(process),
                                           random_.next());
  node.link->faults = normal_origin_link(node);
  node.link->detects_refusal = true;
  auto origin_watcher = std::make_unique<OriginWatcher>(loads_[node.region]);
  OriginWatcher& watcher = *origin_watcher;
  node.watcher = std::move(origin_watcher);
  node.link->watcher = node.watcher.get();
  links_.push_back(node.link);
  if (settings.ledger) {
    const LedgerUser user{
        .region = node.region, .node = node.index, .process = process, .name = plan.name};
    node.ledger = std::make_shared<LedgerLink>(timeline_, *ledger_, user, random_.next());
    node.ledger->faults = normal_ledger_link(node);
    node.ledger->detects_refusal = true;
    auto ledger_watcher = std::make_unique<LedgerLoadWatcher>(*this, node);
    if (monitor_) ledger_watcher->checked = std::make_unique<CheckedLedgerWatcher>(*monitor_);
    watcher.on_message = [this, &node](const BridgeMessage& message) {
      measure_delays(node, message);
    };
    node.ledger_watcher = std::move(ledger_watcher);
    node.ledger->watcher = node.ledger_watcher.get();
    ledger_links_.push_back(node.ledger);
  }
  node.engine = decide::Engine::make(node.clock, {.origin = node.link,
                                                  .ledger = node.ledger,
                                                  .region = plan.name,
                                                  .sync = settings.sync,
                                                  .on_origin_loss = settings.on_origin_loss,
                                                  .read_deadline = settings.read_deadline,
                                                  .max_freshness = settings.max_freshness,
                                                  .replay_within = settings.replay_within,
                                                  .capacity = settings.capacity,
                                                  .seed = random_.next()});
  node.last_heartbeat = timeline_.now().mono;
  node.last_replay = {};
  node.applied = 0;
  node.touched = true;
  if (!monitor_) return;
  plant_in_links(options_.checks->planted_bug, node);
  node.process = &monitor_->start_process(node);
  if (node.wrong_clock) node.process->wrong_clock_until = WallTime::max();
  node.clock.forget_latest();
  watcher.checked = std::make_unique<CheckedOriginWatcher>(*monitor_, timeline_, node);
  note_disruption();
}

void Fleet::end(Node& node, ProcessInfo::Exit exit) {
  if (monitor_) {
    node.process->ended = Instant{.wall = node.clock.latest(), .mono = timeline_.now().mono};
    node.process->exit = exit;
    if (node.engine->sync_stats().left_out > 0) monitor_->conditions.no_room = true;
  }
  stop_process(node);
}

void Fleet::kill(Node& node) {
  if (!node.is_running()) return;
  lost_with_nodes_ += unacked_counts(node, *origins_[node.region]);
  end(node, ProcessInfo::Exit::kKilled);
}

void Fleet::drain(Node& node) {
  if (!node.serves()) return;
  node.draining = true;
  node.idle_since = timeline_.now().mono;
}

LinkFaults Fleet::normal_origin_link(const Node& node) const {
  const RegionPlan& plan = plans_[node.region];
  return {.least_delay = plan.to_origin.from, .most_delay = plan.to_origin.to};
}

LedgerFaults Fleet::normal_ledger_link(const Node& node) const {
  const RegionPlan& plan = plans_[node.region];
  return {.least_delay = plan.to_ledger.from, .most_delay = plan.to_ledger.to};
}

void Fleet::run_iteration(Node& node) {
  // The whole table in about ten seconds.
  const size_t slots = options_.settings.capacity / 500;
  const Instant now = node.clock.now();
  const Flush flush = node.draining ? Flush::kAll : Flush::kDue;
  node.last_replay = node.engine->run_replay(now, *node.executor, flush);
  const bool timed = admissions_.measuring() && options_.stopwatch != nullptr;
  const Nanos before = timed ? options_.stopwatch() : Nanos(0);
  node.engine->run_sync(now, flush);
  if (timed) sync_time_ += options_.stopwatch() - before;
  const WorkReport swept = node.engine->run_sweep(now, slots);
  if (node.last_replay.done > 0 || swept.done > 0) node.touched = true;
  if (monitor_) {
    const uint64_t applied = node.engine->sync_stats().applied;
    if (std::exchange(node.applied, applied) != applied) node.touched = true;
  }
  if (node.draining) continue_draining(node);
}

// A node ends once it had nothing to replay for as long as a request may wait.
void Fleet::continue_draining(Node& node) {
  const MonoTime now = timeline_.now().mono;
  if (node.last_replay.done > 0 || node.last_replay.waiting > 0) node.idle_since = now;
  if (now - node.idle_since <= options_.settings.read_deadline) return;
  node.engine->run_shutdown(node.clock.now());
  end(node, ProcessInfo::Exit::kDrained);
}

void Fleet::heartbeat(Node& node) {
  std::vector<const Node*> siblings;
  for (const uint32_t number : of_region_[node.region]) siblings.push_back(nodes_[number].get());
  send_heartbeat(node, siblings, timeline_.now().mono);
}

}  // namespace weir::sim
