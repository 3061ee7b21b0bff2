#include "sim/worlds/world.h"

#include <algorithm>
#include <array>

#include "memory/tuple_key.h"
#include "regional/freshness.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

constexpr Millis kMostSkew{20};
constexpr Millis kMostApart{300};  // where a clock is set now and then
constexpr Millis kMostFairDelay{40};
constexpr Millis kStatesKept{6000};  // of the ledger, for replicas that lag
constexpr int64_t kBatchesPerGap = 8;
constexpr size_t kLastEvents = 30;

template <typename T, size_t N>
T one_of(Random& random, const std::array<T, N>& choices) {
  return choices[static_cast<size_t>(random.between(0, static_cast<int64_t>(N) - 1))];
}

}  // namespace

World::World(const WorldOptions& options)
    : options_(options),
      random_(options.seed),
      timeline_(random_.next()),
      monitor_(timeline_, options.only_checker) {
  const bool fault_free = options.faults == FaultMode::kNone;
  replay_within_ = one_of(random_, std::array{Millis(0), Millis(100), Millis(250), Millis(250)});
  monitor_.conditions.fault_free = fault_free;
  monitor_.guarantees = {
      .max_freshness = one_of(random_, std::array{Millis(500), Millis(2000), Millis(5000)}),
      .read_deadline = options.read_deadline,
      .on_origin_loss = options.on_origin_loss,
      .evicts = options.table == TableSize::kSmall,
      .acked_within = replay_within_ + 2 * kIteration,
      .probed_within = kProbeEvery,
      .max_clock_skew = kMostSkew + options.max_region_skew};
  max_fault_gap_ = one_of(random_, std::array{Millis(1500), Millis(4000), Millis(12'000)});

  const auto count = options.regions > 0 ? options.regions : random_.between(1, 3);
  options_.regions = static_cast<int>(count);
  // A single region has no ledger, so without an origin it would share nothing.
  options_.without_origin = count == 1 ? 0 : std::min(options_.without_origin, options_.regions);
  for (int i = 0; i < count; ++i) make_region();
  if (count > 1) make_ledger();
  const bool steps = options.steps_back || (!fault_free && random_.one_in(2));
  if (!fault_free && steps && happens(WorldFault::kClockSteps)) {
    stepping_node_ = regions_.front()->nodes.front().get();
    monitor_.guarantees.max_clock_skew = kMostApart + options.max_region_skew;
  }
  make_tuples();
  if (options_.relaxed) draw_consistencies();
}

void World::make_region() {
  const int index = static_cast<int>(regions_.size());
  regions_.push_back(std::make_unique<Region>(index, "region-" + std::to_string(index)));
  Region& region = *regions_.back();
  region.origin = std::make_unique<WatchedOrigin>(
      timeline_, random_.one_in(2) ? Writing::kRaise : Writing::kSet, options_.planted_bug,
      [this, index](const OriginWrite& write) { monitor_.after_write(index, write); });
  region.has_origin = index < options_.regions - options_.without_origin;
  monitor_.add_region(region.name, *region.origin,
                      region.has_origin ? Monitor::Sharing::kOrigin : Monitor::Sharing::kNone);
  const int64_t apart = options_.max_region_skew.count();
  const Millis skew(apart == 0 ? 0 : random_.between(0, apart));
  const int64_t few = options_.regions == 1 ? 2 : 1;
  auto count = options_.nodes > 0 ? options_.nodes : random_.between(few, few + 2);
  if (!region.has_origin) count = 1;
  for (int i = 0; i < count; ++i) {
    const Millis node_skew = skew + Millis(random_.between(0, kMostSkew.count()));
    region.nodes.push_back(std::make_unique<Node>(index, i, NodeClock(timeline_, node_skew)));
    monitor_.add_node(*region.nodes.back());
    LinkFaults& normal = region.nodes.back()->normal;
    normal.most_delay = Millis(random_.between(0, 3) == 0 ? 250 : random_.between(1, 60));
    normal.lose_permille = one_of(random_, std::array<int64_t, 3>{0, 50, 250});
    normal.repeat_permille = one_of(random_, std::array<int64_t, 2>{0, 125});
    if (!happens(WorldFault::kOriginMessageLoss)) normal = {.most_delay = normal.most_delay};
    if (options_.faults == FaultMode::kNone) {
      normal = {.most_delay = Millis(random_.between(1, kMostFairDelay.count()))};
    }
  }
}

void World::make_ledger() {
  SyncRules rules;
  rules.lease = one_of(random_, std::array{Millis(7000), Millis(12'000), Millis(600'000)});
  const bool fault_free = options_.faults == FaultMode::kNone;
  monitor_.conditions.budget_limited = !fault_free &&
                                       (random_.one_in(4) || options_.small_row_budget) &&
                                       happens(WorldFault::kRowBudget);
  if (monitor_.conditions.budget_limited)
    rules.rows_per_second = static_cast<uint32_t>(random_.between(1, 4));
  ledger_ = std::make_unique<WatchedLedger>(
      timeline_, rules, [this](const Committed& committed) { on_commit(committed); });
  for (const auto& region : regions_) ledger_->register_region(region->name);
  if (!fault_free) ledger_->keep_states(kStatesKept);
  // Nothing shows whether a process that is its own bridge had capacity for all tuples.
  monitor_.conditions.no_room = options_.remote_tuples > 0;
  const bool lossy = !fault_free && random_.one_in(2) && happens(WorldFault::kLedgerMessageLoss);
  const bool cuts =
      options_.ledger_trouble && !fault_free && happens(WorldFault::kLedgerMessageLoss);
  for_each_node([&](Node& node) {
    LedgerFaults& normal = node.normal_ledger;
    normal.most_delay = Millis(random_.between(1, fault_free ? kMostFairDelay.count() : 150));
    if (cuts) normal.cut_permille = 300;
    if (!lossy) return;
    normal.lose_permille = one_of(random_, std::array<int64_t, 3>{0, 20, 100});
    normal.repeat_permille = one_of(random_, std::array<int64_t, 2>{0, 125});
    normal.fail_permille = one_of(random_, std::array<int64_t, 3>{0, 50, 200});
    normal.stale_permille = one_of(random_, std::array<int64_t, 2>{0, 50});
    const auto cut = one_of(random_, std::array<int64_t, 2>{0, 50});
    normal.cut_permille = std::max(normal.cut_permille, cut);
  });
  monitor_.watch_ledger(*ledger_, [this] { return delays(); });
}

void World::make_tuples() {
  // One window is so long that it is still live when faults have ended.
  const bool fault_free = options_.faults == FaultMode::kNone;
  const std::array short_ones = {Millis(1000), Millis(2000), Millis(5000)};
  const std::array fair_ones = {Millis(5000), Millis(10'000), Millis(20'000)};
  // Regions may have different limits for one tuple.
  int64_t differs = -1;
  if (ledger_ && random_.one_in(2)) differs = random_.one_in(2) ? 0 : 3;
  if (options_.limits_differ) differs = 0;
  for (int i = 0; i < 4; ++i) {
    const bool is_long = i == 0;
    Tuple tuple{
        .identifier = "user-" + std::to_string(i),
        .duration = is_long ? Millis(60'000) : one_of(random_, fault_free ? fair_ones : short_ones),
        .limit = static_cast<Count>(is_long ? fault_free ? random_.between(40, 160)
                                                         : random_.between(100, 2000)
                                            : random_.between(1, 40)),
        .algorithm = random_.one_in(3) ? Algorithm::kFixedWindow : Algorithm::kSlidingWindow};
    tuple.other_limit = i == differs ? 4 * tuple.limit : tuple.limit;
    if (options_.tenants && i >= 2) tuple.ns = "quiet";
    if (i < options_.tuples) tuples_.push_back(tuple);
  }
  if (!options_.all_algorithms) return;
  for (const Algorithm algorithm : {Algorithm::kGcra, Algorithm::kTokenBucket,
                                    Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog}) {
    const auto limit = static_cast<Count>(random_.between(1, 40));
    tuples_.push_back({.identifier = std::string(weir::to_string(algorithm)),
                       .duration = one_of(random_, fault_free ? fair_ones : short_ones),
                       .limit = limit,
                       .algorithm = algorithm,
                       .other_limit = limit});
  }
}

void World::draw_consistencies() {
  for (Tuple& tuple : tuples_) {
    tuple.asked = one_of(random_, std::array{Asked::kConverge, Asked::kRelaxed, Asked::kMixed});
  }
}

World::~World() {
  release_all();
}

Delays World::delays() const {
  Millis origin{0};
  Millis ledger{0};
  for_each_node([&](const Node& node) {
    origin = std::max(origin, node.normal.most_delay);
    ledger = std::max(ledger, node.normal_ledger.most_delay);
  });
  return delays_of(
      ledger_->rules(),
      {.acked_within = monitor_.guarantees.acked_within, .to_origin = origin, .to_ledger = ledger});
}

RunReport World::run() {
  const bool fault_free = options_.faults == FaultMode::kNone;
  report_.regions = static_cast<int>(regions_.size());
  for (const auto& region : regions_) {
    report_.nodes = std::max(report_.nodes, static_cast<int>(region->nodes.size()));
  }
  for_each_node([this](Node& node) { start_process(node); });
  // Without faults, processes know each other before the first request.
  if (fault_free) monitor_.clear_disruption();
  timeline_.post_in(fault_free ? Millis(2000) : Millis(0), [this] { schedule_traffic(); });
  if (ledger_ && options_.visitors > 0) schedule_visit();
  if (options_.bursts) schedule_bursts();
  if (options_.changes_settings) schedule_changing_clients();
  if (!fault_free) {
    schedule_fault();
    if (ledger_ && options_.ledger_trouble) schedule_rejected_rows();
    if (ledger_ && options_.pauses_bridges) schedule_bridge_pauses();
    if (stepping_node_ != nullptr) schedule_clock();
    if (options_.clock == ClockFault::kHours) schedule_wrong_clock();
    if (options_.clock == ClockFault::kJumps) schedule_clock_jump();
    if (random_.one_in(2) && happens(WorldFault::kDeadConnections)) schedule_final_disconnects();
  }
  if (ledger_) schedule_audit();
  monitor_.refresh_views();
  run_until(timeline_.now().mono + options_.fault_time);
  if (report_.broken) return std::move(report_);
  stop_faults();
  schedule_probes();
  // Agreement may take this long for any tuple. Then requests end, and those in flight complete.
  const Guarantees& bounds = monitor_.guarantees;
  const MonoTime calm_since = *monitor_.conditions.calm_since;
  run_until(calm_since + bounds.read_deadline +
            2 * (bounds.max_freshness + bounds.acked_within + kProbeEvery + Millis(500)) +
            Millis(1000));
  probing_ = false;
  run_until(timeline_.now().mono + 2 * (bounds.read_deadline + bounds.acked_within));
  // No request for a one-time tuple follows, so no read repairs its loss: its window ends first.
  if (options_.table == TableSize::kSmall) run_until(calm_since + 2 * kOneTimeWindow);
  monitor_.refresh_views();
  if (ledger_) audit();
  monitor_.at_end();
  note_violation();
  summarize();
  return std::move(report_);
}

void World::run_until(MonoTime end) {
  while (!monitor_.violation() && timeline_.step(end)) {
    ++report_.events;
    monitor_.after_event();
  }
  note_violation();
}

void World::note_violation() {
  if (!monitor_.violation()) return;
  report_.broken = monitor_.violation();
  report_.broken_after = std::chrono::ceil<Millis>(monitor_.violated_at() - began_);
}

void World::schedule_audit() {
  timeline_.post_in(Monitor::kAuditEvery, [this] {
    if (over_) return;
    schedule_audit();
    audit();
  });
}

void World::audit() {
  monitor_.audit();
  if (!monitor_.conditions.budget_limited) return;
  for_each_node([this](const Node& node) {
    const SyncStats& sync = monitor_.view(node).sync;
    if (sync.waiting > 0 && sync.budget_used > 0.99) cover(Coverage::kRowsWaited);
  });
}

void World::on_commit(const Committed& committed) {
  report_.rows += committed.rows.size();
  const Node& node = *regions_[static_cast<size_t>(committed.by.region)]
                          ->nodes[static_cast<size_t>(committed.by.node)];
  for (const LedgerRow& row : committed.rows) {
    if (row.sequence < node.clock.now().wall.time_since_epoch() / row.key.duration) {
      cover(Coverage::kLateRow);
    }
    note("row of " + row.region + " for " + row.key.identifier + " window " +
             std::to_string(row.sequence) + " written by node " + std::to_string(node.index) +
             ": " + std::to_string(row.count) + ", leased until " +
             std::to_string(row.leased_until.time_since_epoch().count()),
         row.limit_seen);
  }
  if (active_ && options_.feed_gaps && happens(WorldFault::kFeedGaps) &&
      random_.one_in(kBatchesPerGap)) {
    ledger_->lose_next_batches(committed.by.name, 1);
  }
  monitor_.after_commit(committed);
}

void World::summarize() {
  report_.lasted = std::chrono::ceil<Millis>(timeline_.now().mono - began_);
  for_each_node([this](const Node& node) {
    if (!node.is_running()) return;
    report_.evicted += node.engine->stats().evicted;
    report_.left_out += node.engine->sync_stats().left_out;
  });
  for (const auto& link : links_) {
    report_.coverage[Coverage::kReplayAppliedButReplyLost] += link->counters.lost_replies;
    report_.coverage[Coverage::kMessageRepeated] += link->counters.repeated;
    report_.coverage[Coverage::kSlowReply] += link->counters.slow_replies;
    report_.coverage[Coverage::kBridgeMessageLost] += link->counters.lost_messages;
  }
  for (const auto& link : ledger_links_) {
    report_.coverage[Coverage::kImportCut] += link->counters.cut;
    report_.coverage[Coverage::kStaleImport] += link->counters.stale;
    report_.coverage[Coverage::kRowRejected] += link->counters.rejected;
    report_.coverage[Coverage::kFeedGap] += link->counters.gaps;
    report_.coverage[Coverage::kFullRead] += link->counters.full_reads;
  }
  if (ledger_) {
    report_.delay = delays().total();
    report_.coverage[Coverage::kEvictedWithRegions] += report_.evicted;
    report_.coverage[Coverage::kConcurrentLeases] += ledger_->counters().crossed;
    report_.coverage[Coverage::kFeedBeganAgain] += ledger_->counters().epochs;
    report_.coverage[Coverage::kLeaseRenewed] += ledger_->counters().renewed;
    report_.coverage[Coverage::kPublishedAgain] += ledger_->counters().repeated;
    report_.coverage[Coverage::kLostRowsRepaired] += ledger_->counters().repaired;
  }
  for (const auto& region : regions_) {
    const WatchedOrigin& origin = *region->origin;
    if (!region->has_origin) cover(Coverage::kRegionWithoutOrigin);
    report_.coverage[Coverage::kEmptyOriginRepaired] += origin.repaired(Loss::kForgot);
    report_.coverage[Coverage::kOldSnapshotRepaired] += origin.repaired(Loss::kOldSnapshot);
    report_.coverage[Coverage::kLaggingReplicaRepaired] += origin.repaired(Loss::kLaggingReplica);
    report_.coverage[Coverage::kLateWriteRepaired] += origin.repaired(Loss::kLateWrite);
    report_.coverage[Coverage::kExactForeignCharged] += origin.foreign_charges();
    for (const auto& by : region->degraded) {
      const auto alone = region->admitted_alone.find(by);
      const Count known = alone == region->admitted_alone.end() ? 0 : alone->second;
      if (origin.told_by(by.first, by.second) > known) cover(Coverage::kExactDegradedTold);
    }
    if (region->admitted_isolated > 0 && region->denied_isolated > 0)
      cover(Coverage::kIsolatedRegionDecided);
    for (const auto& [cell, accepted] : monitor_.oracle(region->index).cells()) {
      if (!is_live_at(cell, timeline_.now().wall)) continue;
      report_.accepted += accepted;
      if (!region->has_origin) continue;
      const MissingCounts missing = missing_counts(monitor_.view(region->index), cell);
      report_.died_unacked += missing.died_unacked;
      report_.lost_with_origin += missing.lost_with_origin;
    }
  }
}

Region& World::any_region() {
  return *regions_[static_cast<size_t>(
      random_.between(0, static_cast<int64_t>(regions_.size()) - 1))];
}

void World::note(const std::string& what, uint64_t value) {
  const auto mix = [this](uint64_t number) {
    report_.fingerprint = (report_.fingerprint ^ number) * 0x100000001b3ULL;
  };
  mix(static_cast<uint64_t>(timeline_.now().mono.time_since_epoch().count()));
  for (const char c : what) mix(static_cast<uint8_t>(c));
  mix(value);
  report_.last_events.push_back(std::to_string(timeline_.now().wall.time_since_epoch().count()) +
                                " ms: " + what);
  if (report_.last_events.size() > kLastEvents) {
    report_.last_events.erase(report_.last_events.begin());
  }
}

}  // namespace weir::sim
