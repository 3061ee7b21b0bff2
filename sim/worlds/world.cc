#include "sim/worlds/world.h"

#include <algorithm>
#include <array>

#include "limiter/freshness.h"
#include "memory/tuple_key.h"
#include "sim/checkers/missing_counts.h"

namespace weir::sim {
namespace {

constexpr Millis kMostSkew{20};
constexpr Millis kMostApart{300};  // where a clock is set now and then
constexpr Millis kMostFairDelay{40};
constexpr Millis kAuditEvery{100};
constexpr Millis kEverythingEvery{60'000};
constexpr size_t kLastEvents = 30;

template <typename T, size_t N>
T one_of(Random& random, const std::array<T, N>& choices) {
  return choices[static_cast<size_t>(random.between(0, static_cast<int64_t>(N) - 1))];
}

}  // namespace

World::World(const WorldOptions& options)
    : options_(options), random_(options.seed), timeline_(random_.next()) {
  const bool fault_free = options.faults == FaultMode::kFair;
  replay_within_ = one_of(random_, std::array{Millis(0), Millis(100), Millis(250), Millis(250)});
  guarantees_ = {
      .max_freshness = one_of(random_, std::array{Millis(500), Millis(2000), Millis(5000)}),
      .read_deadline = options.read_deadline,
      .on_origin_loss = options.on_origin_loss,
      .evicts = options.table == TableSize::kSmall,
      .acked_within = replay_within_ + 2 * kReplayEvery,
      .probed_within = kProbeEvery,
      .max_clock_skew = kMostSkew + options.max_region_skew};
  max_fault_gap_ =
      one_of(random_, std::array{Millis(1500), Millis(4000), Millis(12'000)});

  const auto count = options.regions > 0 ? options.regions : random_.between(1, 3);
  options_.regions = static_cast<int>(count);
  for (int i = 0; i < count; ++i) make_region();
  if (count > 1) make_ledger();
  if (!fault_free && random_.one_in(2) && happens(WorldFault::kClockSteps)) {
    stepping_node_ = regions_.front()->nodes.front().get();
    guarantees_.max_clock_skew = kMostApart + options.max_region_skew;
  }
  make_tuples();
}

void World::make_region() {
  const int index = static_cast<int>(regions_.size());
  regions_.push_back(std::make_unique<Region>(index, "region-" + std::to_string(index)));
  Region& region = *regions_.back();
  region.origin = std::make_unique<WatchedOrigin>(
      timeline_, random_.one_in(2) ? Writing::kRaise : Writing::kSet, options_.planted_bug,
      [this, &region](const OriginWrite& write) {
        check(region, [&](RegionChecker& checker) { return checker.after_write(view(region), write); });
      });
  const int64_t apart = options_.max_region_skew.count();
  const Millis skew(apart == 0 ? 0 : random_.between(0, apart));
  const int64_t few = options_.regions == 1 ? 2 : 1;
  const auto count = options_.nodes > 0 ? options_.nodes : random_.between(few, few + 2);
  for (int i = 0; i < count; ++i) {
    region.nodes.push_back(std::make_unique<Node>(
        timeline_, index, i, skew + Millis(random_.between(0, kMostSkew.count()))));
    LinkFaults& normal = region.nodes.back()->normal;
    normal.most_delay = Millis(random_.between(0, 3) == 0 ? 250 : random_.between(1, 60));
    normal.lose_permille = one_of(random_, std::array<int64_t, 3>{0, 50, 250});
    normal.repeat_permille = one_of(random_, std::array<int64_t, 2>{0, 125});
    if (!happens(WorldFault::kOriginMessageLoss)) normal = {.most_delay = normal.most_delay};
    if (options_.faults == FaultMode::kFair) {
      normal = {.most_delay = Millis(random_.between(1, kMostFairDelay.count()))};
    }
  }
  region_views_.push_back({.name = region.name,
                           .oracle = region.oracle,
                           .origin = *region.origin,
                           .nodes = region.views});
}

void World::make_ledger() {
  SyncRules rules;
  rules.lease = one_of(random_, std::array{Millis(7000), Millis(12'000), Millis(600'000)});
  const bool fault_free = options_.faults == FaultMode::kFair;
  budget_limited_ = !fault_free && (random_.one_in(4) || options_.small_row_budget) && happens(WorldFault::kRowBudget);
  if (budget_limited_) rules.rows_per_second = static_cast<uint32_t>(random_.between(1, 4));
  ledger_ = std::make_unique<WatchedLedger>(
      timeline_, rules, [this](const Committed& committed) { on_commit(committed); });
  for (const auto& region : regions_) ledger_->register_region(region->name);
  const bool lossy = !fault_free && random_.one_in(2) && happens(WorldFault::kLedgerMessageLoss);
  for_each_node([&](Node& node) {
    LedgerFaults& normal = node.normal_ledger;
    normal.most_delay = Millis(random_.between(1, fault_free ? kMostFairDelay.count() : 150));
    if (!lossy) return;
    normal.lose_permille = one_of(random_, std::array<int64_t, 3>{0, 20, 100});
    normal.repeat_permille = one_of(random_, std::array<int64_t, 2>{0, 125});
    normal.fail_permille = one_of(random_, std::array<int64_t, 3>{0, 50, 200});
    normal.stale_permille = one_of(random_, std::array<int64_t, 2>{0, 50});
    normal.cut_permille = one_of(random_, std::array<int64_t, 2>{0, 50});
    normal.late_commit = one_of(random_, std::array{Millis(0), Millis(2000)});
  });
  global_checkers_ = all_global_checkers();
}

void World::make_tuples() {
  // One window is so long that it is still there when all is calm.
  const bool fault_free = options_.faults == FaultMode::kFair;
  const std::array short_ones = {Millis(1000), Millis(2000), Millis(5000)};
  const std::array fair_ones = {Millis(5000), Millis(10'000), Millis(20'000)};
  // Regions may differ in the limit of one tuple.
  int64_t differs = -1;
  if (ledger_ && random_.one_in(2)) differs = random_.one_in(2) ? 0 : 3;
  if (options_.limits_differ) differs = 0;
  for (int i = 0; i < 4; ++i) {
    const bool is_long = i == 0;
    Tuple tuple{
        .identifier = "user-" + std::to_string(i),
        .duration = is_long ? Millis(60'000) : one_of(random_, fault_free ? fair_ones : short_ones),
        .limit = is_long ? fault_free ? random_.between(40, 160) : random_.between(100, 2000)
                         : random_.between(1, 40),
        .algorithm = random_.one_in(3) ? Algorithm::kFixedWindow : Algorithm::kSlidingWindow};
    tuple.other_limit = i == differs ? 4 * tuple.limit : tuple.limit;
    if (options_.tenants && i >= 2) tuple.ns = "quiet";
    if (i < options_.tuples) tuples_.push_back(tuple);
  }
  if (!options_.all_algorithms) return;
  for (const Algorithm algorithm : {Algorithm::kGcra, Algorithm::kTokenBucket,
                                    Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog}) {
    const int64_t limit = random_.between(1, 40);
    tuples_.push_back({.identifier = std::string(weir::to_string(algorithm)),
                       .duration = one_of(random_, short_ones),
                       .limit = limit,
                       .algorithm = algorithm,
                       .other_limit = limit});
  }
}

World::~World() {
  release_all();
}

// What a process of one region accepts is used in all others after this, by the schedules that each
// keeps to. The last of a region to tell the origin reads there what all have, so one of them knows
// enough to go by. If its turn comes after a sibling's, it waits for a round and asks first; if a
// row of the same cell is under way, it waits for that.
Delays World::delays() const {
  Millis origin{0};
  Millis ledger{0};
  for_each_node([&](const Node& node) {
    origin = std::max(origin, node.normal.most_delay);
    ledger = std::max(ledger, node.normal_ledger.most_delay);
  });
  const SyncRules& rules = ledger_->rules();
  const auto period = [](Millis every) { return every + every / 5 + kReplayEvery; };
  const Millis known = guarantees_.acked_within + 2 * origin + kReplayEvery;
  const Millis landed = 2 * ledger + kReplayEvery;
  const Millis head_start = period(rules.publish_every) + std::max(rules.publish_every, landed);
  const Millis turn = head_start + 2 * period(rules.publish_every) + 2 * origin + kReplayEvery;
  return {.publish = known + landed + turn + ledger,
          .import = period(rules.import_every) + 2 * ledger + kReplayEvery};
}

RunReport World::run() {
  const bool fault_free = options_.faults == FaultMode::kFair;
  report_.regions = static_cast<int>(regions_.size());
  for (const auto& region : regions_) {
    report_.nodes = std::max(report_.nodes, static_cast<int>(region->nodes.size()));
  }
  for_each_node([this](Node& node) { start_process(node); });
  // Where nothing goes wrong processes have heard of each other before they are asked.
  if (fault_free) disruption_began_.reset();
  timeline_.post_in(fault_free ? Millis(2000) : Millis(0), [this] { schedule_traffic(); });
  if (ledger_ && options_.visitors > 0) schedule_visit();
  if (!fault_free) {
    schedule_fault();
    if (stepping_node_ != nullptr) schedule_clock();
    if (options_.clock == ClockFault::kHours) schedule_wrong_clock();
    if (options_.clock == ClockFault::kJumps) schedule_clock_jump();
    if (random_.one_in(2) && happens(WorldFault::kDeadConnections)) schedule_final_disconnects();
  }
  if (ledger_) schedule_audit();
  refresh_views();
  run_until(timeline_.now().mono + options_.fault_time);
  if (report_.broken) return std::move(report_);
  stop_faults();
  schedule_probes();
  // As long as agreement may take for any tuple, and a little more. Then nobody asks, and
  // what was under way comes to its end.
  run_until(*calm_since_ + guarantees_.read_deadline +
            2 * (guarantees_.max_freshness + guarantees_.acked_within + kProbeEvery + Millis(500)) +
            Millis(1000));
  probing_ = false;
  run_until(timeline_.now().mono + 2 * (guarantees_.read_deadline + guarantees_.acked_within));
  // What passers accepted and the origin lost nobody notices, since nobody asks: it is over first.
  if (options_.table == TableSize::kSmall) run_until(*calm_since_ + 2 * kOneTimeWindow);
  // Rows that the ledger lost are missed when everything is read.
  if (failed_over_) run_until(*calm_since_ + kEverythingEvery + kRecovery);
  refresh_views();
  if (ledger_) audit();
  check_everywhere([](RegionChecker& checker, const RegionView& world) { return checker.at_end(world); });
  check_global([](GlobalChecker& checker, const GlobalView& all) { return checker.at_end(all); });
  summarize();
  return std::move(report_);
}

void World::run_until(MonoTime end) {
  while (!report_.broken && timeline_.step(end)) {
    ++report_.events;
    // Most events are turns of a replay with nothing to tell, or messages on their way.
    bool touched = false;
    for_each_node([&](const Node& node) { touched = touched || node.touched; });
    if (!touched) continue;
    refresh_views();
    check_everywhere(
        [](RegionChecker& checker, const RegionView& world) { return checker.after_event(world); });
    check_global(
        [](GlobalChecker& checker, const GlobalView& all) { return checker.after_event(all); });
    for_each_node([](Node& node) { node.touched = false; });
  }
}

void World::schedule_audit() {
  timeline_.post_in(kAuditEvery, [this] {
    if (over_) return;
    schedule_audit();
    audit();
  });
}

// What the publish rule says of each cell of each process.
void World::audit() {
  for_each_node([](Node& node) { node.touched = true; });
  refresh_views();
  for_each_node([this](const Node& node) {
    NodeView& seen = region_of(node).views[static_cast<size_t>(node.index)];
    seen.shared.clear();
    seen.sync = {};
    seen.received = node.received;
    if (!node.runs()) return;
    seen.sync = node.engine->sync_stats();
    no_room_ = no_room_ || seen.sync.no_room > 0;
    if (budget_limited_ && seen.sync.waiting > 0 && seen.sync.budget_used > 0.99) {
      cover(Coverage::kRowsWaited);
    }
    node.engine->inspect_sync(
        node.clock.now(), [&](const limiter::SharedCell& cell) { seen.shared.push_back(cell); });
  });
  check_global([](GlobalChecker& checker, const GlobalView& all) { return checker.at_audit(all); });
}

void World::on_commit(const Committed& committed) {
  report_.rows += committed.news.rows.size();
  history_.note(timeline_.now().mono, committed.news);
  const Node& node = *regions_[static_cast<size_t>(committed.by.region)]
                          ->nodes[static_cast<size_t>(committed.by.node)];
  for (const LedgerRow& row : committed.news.rows) {
    if (row.sequence < node.clock.now().wall.time_since_epoch() / row.key.duration) {
      cover(Coverage::kLateRow);
    }
    note("row of " + row.region + " for " + row.key.identifier + " window " +
             std::to_string(row.sequence) + " written by node " + std::to_string(node.index) +
             ": " + std::to_string(row.count),
         row.limit_seen);
  }
  for (const LedgerPresence& presence : committed.news.presences) {
    note(presence.region + " says that it counts on " + presence.key.identifier);
  }
  check_global([&](GlobalChecker& checker, const GlobalView& all) {
    return checker.after_commit(all, committed);
  });
}

void World::summarize() {
  report_.lasted = std::chrono::ceil<Millis>(timeline_.now().mono - began_);
  for_each_node([this](const Node& node) {
    if (!node.runs()) return;
    report_.evicted += node.engine->stats().evicted;
    report_.no_room += node.engine->sync_stats().no_room;
  });
  for (const auto& link : links_) {
    report_.coverage[Coverage::kReplayAppliedButReplyLost] += link->counters.lost_replies;
    report_.coverage[Coverage::kMessageRepeated] += link->counters.repeated;
    report_.coverage[Coverage::kSlowReply] += link->counters.slow_replies;
  }
  for (const auto& link : ledger_links_) {
    report_.coverage[Coverage::kImportCut] += link->counters.cut;
    report_.coverage[Coverage::kStaleImport] += link->counters.stale;
    report_.coverage[Coverage::kRowRejected] += link->counters.rejected;
  }
  if (ledger_) {
    report_.delay = delays().total();
    report_.coverage[Coverage::kEvictedWithRegions] += report_.evicted;
    report_.coverage[Coverage::kRemoteRowsDropped] += report_.no_room;
    report_.coverage[Coverage::kConcurrentPresence] += ledger_->counters().crossed;
    report_.coverage[Coverage::kLeaseRenewed] += ledger_->counters().renewed;
    report_.coverage[Coverage::kPublishedAgain] += ledger_->counters().repeated;
    report_.coverage[Coverage::kLostRowsRepaired] += ledger_->counters().repaired;
  }
  for (const auto& region : regions_) {
    const WatchedOrigin& origin = *region->origin;
    report_.coverage[Coverage::kEmptyOriginRepaired] += origin.repaired(Loss::kForgot);
    report_.coverage[Coverage::kOldSnapshotRepaired] += origin.repaired(Loss::kOldSnapshot);
    report_.coverage[Coverage::kLaggingReplicaRepaired] += origin.repaired(Loss::kLaggingReplica);
    report_.coverage[Coverage::kLateWriteRepaired] += origin.repaired(Loss::kLateWrite);
    if (region->admitted_isolated > 0 && region->denied_isolated > 0) cover(Coverage::kIsolatedRegionDecided);
    for (const auto& [cell, accepted] : region->oracle.cells()) {
      if (!is_live_at(cell, timeline_.now().wall)) continue;
      const MissingCounts missing = missing_counts(view(*region), cell);
      report_.accepted += accepted;
      report_.died_unacked += missing.died_unacked;
      report_.lost_with_origin += missing.lost_with_origin;
    }
  }
}

Region& World::any_region() {
  return *regions_[static_cast<size_t>(
      random_.between(0, static_cast<int64_t>(regions_.size()) - 1))];
}

void World::refresh_views() {
  for_each_node([this](const Node& node) {
    std::vector<NodeView>& views = region_of(node).views;
    views.resize(region_of(node).nodes.size());
    NodeView& seen = views[static_cast<size_t>(node.index)];
    seen.node = node.index;
    seen.now = node.clock.now();
    seen.latest = node.clock.latest();
    seen.last_replay = node.last_replay;
    seen.reachable = node.runs() && node.link->reach() != Reach::kNone;
    seen.touched = node.touched;
    if (!node.touched) return;
    seen.cells.clear();
    seen.process = node.runs() ? node.process->number : -1;
    if (!node.runs()) return;
    seen.incarnation = node.engine->incarnation();
    node.engine->inspect([&](const limiter::CellView& cell) { seen.cells.push_back(cell); });
  });
}

RegionView World::view(const Region& region) const {
  return {.oracle = region.oracle,
          .origin = *region.origin,
          .nodes = region.views,
          .now = timeline_.now(),
          .guarantees = guarantees_,
          .calm_since = calm_since_,
          .has_ledger = ledger_ != nullptr};
}

GlobalView World::fleet() const {
  const MonoTime now = timeline_.now().mono;
  const bool disrupted = disruption_began_ && now - last_disruption_ <= kRecovery;
  return {.regions = region_views_,
          .ledger = *ledger_,
          .history = history_,
          .now = timeline_.now(),
          .guarantees = guarantees_,
          .delays = delays(),
          .disrupted_since = disrupted ? disruption_began_ : std::nullopt,
          .rejected = rejected_tuples_,
          .fault_free = options_.faults == FaultMode::kFair,
          .budget_limited = budget_limited_,
          .failed_over = failed_over_,
          .jumped_lately = jumped_at_ && now - *jumped_at_ <= kRecovery,
          .no_room = no_room_,
          .calm_since = calm_since_};
}

void World::check(const Region& region, const std::function<RegionChecker::Violation(RegionChecker&)>& ask) {
  for (const auto& checker : region.checkers) {
    if (report_.broken || over_) return;
    if (!options_.only_checker.empty() && checker->name() != options_.only_checker) continue;
    if (const RegionChecker::Violation violation = ask(*checker)) {
      report_violation(checker->name(), *violation);
    }
  }
}

void World::check_everywhere(const std::function<RegionChecker::Violation(RegionChecker&, const RegionView&)>& ask) {
  for (const auto& region : regions_) {
    const RegionView world = view(*region);
    check(*region, [&](RegionChecker& checker) { return ask(checker, world); });
  }
}

void World::check_global(const std::function<RegionChecker::Violation(GlobalChecker&, const GlobalView&)>& ask) {
  if (!ledger_) return;
  const GlobalView all = fleet();
  for (const auto& checker : global_checkers_) {
    if (report_.broken || over_) return;
    if (!options_.only_checker.empty() && checker->name() != options_.only_checker) continue;
    if (const RegionChecker::Violation violation = ask(*checker, all)) {
      report_violation(checker->name(), *violation);
    }
  }
}

void World::report_violation(std::string_view checker, const std::string& violation) {
  report_.broken = std::string(checker) + ": " + violation;
  report_.broken_after = std::chrono::ceil<Millis>(timeline_.now().mono - began_);
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
