#include "sim/world.h"

#include <algorithm>
#include <array>

#include "memory/tuple_key.h"
#include "regional/freshness.h"
#include "sim/missing.h"

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
  const bool fair = options.weather == Weather::kFair;
  replay_within_ = one_of(random_, std::array{Millis(0), Millis(100), Millis(250), Millis(250)});
  promises_ = {
      .max_freshness = one_of(random_, std::array{Millis(500), Millis(2000), Millis(5000)}),
      .read_deadline = options.read_deadline,
      .on_origin_loss = options.on_origin_loss,
      .forgets = options.room == Room::kScarce,
      .acked_within = replay_within_ + 2 * kReplayEvery,
      .asked_within = kAskEvery,
      .clocks_apart = kMostSkew + options.regions_apart};
  most_between_misfortunes_ =
      one_of(random_, std::array{Millis(1500), Millis(4000), Millis(12'000)});

  const auto count = options.regions > 0 ? options.regions : random_.between(1, 3);
  options_.regions = static_cast<int>(count);
  for (int i = 0; i < count; ++i) make_region();
  if (count > 1) make_ledger();
  if (!fair && random_.one_in(2) && happens(WorldFault::kClocks)) {
    unsteady_ = regions_.front()->nodes.front().get();
    promises_.clocks_apart = kMostApart + options.regions_apart;
  }
  make_tuples();
}

void World::make_region() {
  const int index = static_cast<int>(regions_.size());
  regions_.push_back(std::make_unique<Region>(index, "region-" + std::to_string(index)));
  Region& region = *regions_.back();
  region.origin = std::make_unique<WatchedOrigin>(
      timeline_, random_.one_in(2) ? Writing::kRaise : Writing::kSet, options_.plant,
      [this, &region](const Written& written) {
        check(region, [&](Checker& checker) { return checker.after_write(view(region), written); });
      });
  const int64_t apart = options_.regions_apart.count();
  const Millis skew(apart == 0 ? 0 : random_.between(0, apart));
  const int64_t few = options_.regions == 1 ? 2 : 1;
  const auto count = options_.nodes > 0 ? options_.nodes : random_.between(few, few + 2);
  for (int i = 0; i < count; ++i) {
    region.nodes.push_back(std::make_unique<Node>(
        timeline_, index, i, skew + Millis(random_.between(0, kMostSkew.count()))));
    LinkFaults& usual = region.nodes.back()->usual;
    usual.most_delay = Millis(random_.between(0, 3) == 0 ? 250 : random_.between(1, 60));
    usual.lose_permille = one_of(random_, std::array<int64_t, 3>{0, 50, 250});
    usual.repeat_permille = one_of(random_, std::array<int64_t, 2>{0, 125});
    if (!happens(WorldFault::kLostMessages)) usual = {.most_delay = usual.most_delay};
    if (options_.weather == Weather::kFair) {
      usual = {.most_delay = Millis(random_.between(1, kMostFairDelay.count()))};
    }
  }
  region_views_.push_back({.name = region.name,
                           .truth = region.truth,
                           .origin = *region.origin,
                           .nodes = region.views});
}

void World::make_ledger() {
  SyncRules rules;
  rules.lease = one_of(random_, std::array{Millis(7000), Millis(12'000), Millis(600'000)});
  const bool fair = options_.weather == Weather::kFair;
  scarce_ = !fair && (random_.one_in(4) || options_.few_rows) && happens(WorldFault::kFewRows);
  if (scarce_) rules.rows_per_second = static_cast<uint32_t>(random_.between(1, 4));
  ledger_ = std::make_unique<WatchedLedger>(
      timeline_, rules, [this](const Committed& committed) { witness_commit(committed); });
  for (const auto& region : regions_) ledger_->know(region->name);
  const bool lossy = !fair && random_.one_in(2) && happens(WorldFault::kLostNews);
  for_each_node([&](Node& node) {
    LedgerFaults& usual = node.usual_ledger;
    usual.most_delay = Millis(random_.between(1, fair ? kMostFairDelay.count() : 150));
    if (!lossy) return;
    usual.lose_permille = one_of(random_, std::array<int64_t, 3>{0, 20, 100});
    usual.repeat_permille = one_of(random_, std::array<int64_t, 2>{0, 125});
    usual.fail_permille = one_of(random_, std::array<int64_t, 3>{0, 50, 200});
    usual.stale_permille = one_of(random_, std::array<int64_t, 2>{0, 50});
    usual.cut_permille = one_of(random_, std::array<int64_t, 2>{0, 50});
    usual.late_commit = one_of(random_, std::array{Millis(0), Millis(2000)});
  });
  fleet_checkers_ = all_fleet_checkers();
}

void World::make_tuples() {
  // One window is so long that it is still there when all is calm.
  const bool fair = options_.weather == Weather::kFair;
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
        .duration = is_long ? Millis(60'000) : one_of(random_, fair ? fair_ones : short_ones),
        .limit = is_long ? fair ? random_.between(40, 160) : random_.between(100, 2000)
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
  let_go();
}

// What a process of one region accepts is used in all others after this, by the schedules that each
// keeps to. The last of a region to tell the origin reads there what all have, so one of them knows
// enough to go by. If its turn comes after a sibling's, it waits for a round and asks first; if a
// row of the same cell is under way, it waits for that.
Delays World::delays() const {
  Millis origin{0};
  Millis ledger{0};
  for_each_node([&](const Node& node) {
    origin = std::max(origin, node.usual.most_delay);
    ledger = std::max(ledger, node.usual_ledger.most_delay);
  });
  const SyncRules& rules = ledger_->rules();
  const auto period = [](Millis every) { return every + every / 5 + kReplayEvery; };
  const Millis known = promises_.acked_within + 2 * origin + kReplayEvery;
  const Millis landed = 2 * ledger + kReplayEvery;
  const Millis head_start = period(rules.publish_every) + std::max(rules.publish_every, landed);
  const Millis turn = head_start + 2 * period(rules.publish_every) + 2 * origin + kReplayEvery;
  return {.publish = known + landed + turn + ledger,
          .import = period(rules.import_every) + 2 * ledger + kReplayEvery};
}

RunReport World::run() {
  const bool fair = options_.weather == Weather::kFair;
  report_.regions = static_cast<int>(regions_.size());
  for (const auto& region : regions_) {
    report_.nodes = std::max(report_.nodes, static_cast<int>(region->nodes.size()));
  }
  for_each_node([this](Node& node) { begin_life(node); });
  // Where nothing goes wrong processes have heard of each other before they are asked.
  if (fair) trouble_began_.reset();
  timeline_.post_in(fair ? Millis(2000) : Millis(0), [this] { schedule_traffic(); });
  if (ledger_ && options_.visitors > 0) schedule_visit();
  if (!fair) {
    schedule_misfortune();
    if (unsteady_ != nullptr) schedule_clock();
    if (options_.clock == ClockFault::kHours) schedule_astray();
    if (options_.clock == ClockFault::kLeaps) schedule_leap();
    if (random_.one_in(2) && happens(WorldFault::kDeadConnections)) schedule_last_deaths();
  }
  if (ledger_) schedule_audit();
  look();
  run_until(timeline_.now().mono + options_.stormy);
  if (report_.broken) return std::move(report_);
  make_calm();
  schedule_asking();
  // As long as agreement may take for any tuple, and a little more. Then nobody asks, and
  // what was under way comes to its end.
  run_until(*calm_since_ + promises_.read_deadline +
            2 * (promises_.max_freshness + promises_.acked_within + kAskEvery + Millis(500)) +
            Millis(1000));
  asking_ = false;
  run_until(timeline_.now().mono + 2 * (promises_.read_deadline + promises_.acked_within));
  // What passers accepted and the origin lost nobody notices, since nobody asks: it is over first.
  if (options_.room == Room::kScarce) run_until(*calm_since_ + 2 * kPasserWindow);
  // Rows that the ledger lost are missed when everything is read.
  if (failed_over_) run_until(*calm_since_ + kEverythingEvery + kRecovery);
  look();
  if (ledger_) audit();
  check_everywhere([](Checker& checker, const WorldView& world) { return checker.at_end(world); });
  check_fleet([](FleetChecker& checker, const FleetView& all) { return checker.at_end(all); });
  sum_up();
  return std::move(report_);
}

void World::run_until(MonoTime end) {
  while (!report_.broken && timeline_.step(end)) {
    ++report_.events;
    // Most events are turns of a replay with nothing to tell, or messages on their way.
    bool touched = false;
    for_each_node([&](const Node& node) { touched = touched || node.touched; });
    if (!touched) continue;
    look();
    check_everywhere(
        [](Checker& checker, const WorldView& world) { return checker.after_event(world); });
    check_fleet(
        [](FleetChecker& checker, const FleetView& all) { return checker.after_event(all); });
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
  look();
  for_each_node([this](const Node& node) {
    NodeView& seen = region_of(node).views[static_cast<size_t>(node.index)];
    seen.shared.clear();
    seen.sync = {};
    seen.received = node.received;
    if (!node.runs()) return;
    seen.sync = node.engine->sync_stats();
    no_room_ = no_room_ || seen.sync.no_room > 0;
    if (scarce_ && seen.sync.waiting > 0 && seen.sync.budget_used > 0.99) {
      mark(Mark::kRowsWaited);
    }
    node.engine->inspect_sync(node.clock.now(),
                              [&](const global::SharedCell& cell) { seen.shared.push_back(cell); });
  });
  check_fleet([](FleetChecker& checker, const FleetView& all) { return checker.at_audit(all); });
}

void World::witness_commit(const Committed& committed) {
  report_.rows += committed.news.rows.size();
  history_.note(timeline_.now().mono, committed.news);
  const Node& node = *regions_[static_cast<size_t>(committed.by.region)]
                          ->nodes[static_cast<size_t>(committed.by.node)];
  for (const LedgerRow& row : committed.news.rows) {
    if (row.sequence < node.clock.now().wall.time_since_epoch() / row.key.duration) {
      mark(Mark::kLateRow);
    }
    note("row of " + row.region + " for " + row.key.identifier + " window " +
             std::to_string(row.sequence) + " written by node " + std::to_string(node.index) +
             ": " + std::to_string(row.count),
         row.limit_seen);
  }
  for (const LedgerPresence& presence : committed.news.presences) {
    note(presence.region + " says that it counts on " + presence.key.identifier);
  }
  check_fleet([&](FleetChecker& checker, const FleetView& all) {
    return checker.after_commit(all, committed);
  });
}

void World::sum_up() {
  report_.lasted = std::chrono::ceil<Millis>(timeline_.now().mono - began_);
  for_each_node([this](const Node& node) {
    if (!node.runs()) return;
    report_.evicted += node.engine->stats().evicted;
    report_.no_room += node.engine->sync_stats().no_room;
  });
  for (const auto& link : links_) {
    report_.marks[Mark::kReplayAppliedButReplyLost] += link->marks.lost_replies;
    report_.marks[Mark::kMessageRepeated] += link->marks.repeated;
    report_.marks[Mark::kSlowReply] += link->marks.slow_replies;
  }
  for (const auto& link : ledger_links_) {
    report_.marks[Mark::kImportCut] += link->marks.cut;
    report_.marks[Mark::kStaleImport] += link->marks.stale;
    report_.marks[Mark::kRowBlamed] += link->marks.blamed;
  }
  if (ledger_) {
    report_.delay = delays().all();
    report_.marks[Mark::kEvictedAmongRegions] += report_.evicted;
    report_.marks[Mark::kNoRoomForRows] += report_.no_room;
    report_.marks[Mark::kPresenceCrossed] += ledger_->marks().crossed;
    report_.marks[Mark::kLeaseRenewed] += ledger_->marks().renewed;
    report_.marks[Mark::kPublishedAgain] += ledger_->marks().repeated;
    report_.marks[Mark::kLostRowsHealed] += ledger_->marks().healed;
  }
  for (const auto& region : regions_) {
    const WatchedOrigin& origin = *region->origin;
    report_.marks[Mark::kEmptyOriginHealed] += origin.healed(Loss::kForgot);
    report_.marks[Mark::kOldSnapshotHealed] += origin.healed(Loss::kOldSnapshot);
    report_.marks[Mark::kLaggingReplicaHealed] += origin.healed(Loss::kLaggingReplica);
    report_.marks[Mark::kLateWriteHealed] += origin.healed(Loss::kLateWrite);
    if (region->admitted_alone > 0 && region->denied_alone > 0) mark(Mark::kRegionAloneWentOn);
    for (const auto& [cell, accepted] : region->truth.cells()) {
      if (!matters_at(cell, timeline_.now().wall)) continue;
      const Missing missing = missing_of(view(*region), cell);
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

void World::look() {
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
    seen.life = node.runs() ? node.life->number : -1;
    if (!node.runs()) return;
    seen.incarnation = node.engine->incarnation();
    node.engine->inspect([&](const decide::CellView& cell) { seen.cells.push_back(cell); });
  });
}

WorldView World::view(const Region& region) const {
  return {.truth = region.truth,
          .origin = *region.origin,
          .nodes = region.views,
          .now = timeline_.now(),
          .promises = promises_,
          .calm_since = calm_since_,
          .has_ledger = ledger_ != nullptr};
}

FleetView World::fleet() const {
  const MonoTime now = timeline_.now().mono;
  const bool troubled = trouble_began_ && now - last_trouble_ <= kRecovery;
  return {.regions = region_views_,
          .ledger = *ledger_,
          .history = history_,
          .now = timeline_.now(),
          .promises = promises_,
          .delays = delays(),
          .troubled_since = troubled ? trouble_began_ : std::nullopt,
          .blamed = blamed_,
          .fair = options_.weather == Weather::kFair,
          .scarce = scarce_,
          .failed_over = failed_over_,
          .leapt_lately = leapt_ && now - *leapt_ <= kRecovery,
          .no_room = no_room_,
          .calm_since = calm_since_};
}

void World::check(const Region& region, const std::function<Checker::Fault(Checker&)>& ask) {
  for (const auto& checker : region.checkers) {
    if (report_.broken || over_) return;
    if (!options_.only.empty() && checker->name() != options_.only) continue;
    if (const Checker::Fault fault = ask(*checker)) {
      break_by(checker->name(), *fault);
    }
  }
}

void World::check_everywhere(const std::function<Checker::Fault(Checker&, const WorldView&)>& ask) {
  for (const auto& region : regions_) {
    const WorldView world = view(*region);
    check(*region, [&](Checker& checker) { return ask(checker, world); });
  }
}

void World::check_fleet(const std::function<Checker::Fault(FleetChecker&, const FleetView&)>& ask) {
  if (!ledger_) return;
  const FleetView all = fleet();
  for (const auto& checker : fleet_checkers_) {
    if (report_.broken || over_) return;
    if (!options_.only.empty() && checker->name() != options_.only) continue;
    if (const Checker::Fault fault = ask(*checker, all)) {
      break_by(checker->name(), *fault);
    }
  }
}

void World::break_by(std::string_view checker, const std::string& fault) {
  report_.broken = std::string(checker) + ": " + fault;
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
