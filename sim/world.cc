#include "sim/world.h"

#include <algorithm>
#include <array>

#include "limiter/freshness.h"
#include "memory/tuple_key.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

constexpr Millis kReplayEvery{10};
constexpr Millis kAskEvery{100};  // in calm
constexpr Millis kMostSkew{20};
constexpr Millis kMostApart{300};  // where a clock is set now and then
constexpr Millis kMostFairDelay{40};
constexpr Millis kAuditEvery{100};
constexpr Millis kEverythingEvery{60'000};
constexpr size_t kLastEvents = 30;

constexpr std::array<std::string_view, static_cast<size_t>(Mark::kCount)> kMarkNames = {
    "a denial caused by siblings only",
    "a degraded verdict",
    "a roll-over with a read in flight",
    "a replay applied although its reply was lost",
    "a batch refused",
    "a message delivered twice",
    "a node killed with untold counts",
    "a node restarted",
    "an isolated node that went on deciding",
    "a node drained",
    "an empty origin healed",
    "an old snapshot healed",
    "a lagging replica healed",
    "a late write healed",
    "an outage with errors survived",
    "an outage without answers survived",
    "a reply beyond its deadline",
    "a decision after the clock was set back over a window's start",
    "a limit exceeded by what was in flight",
    "a tuple forgotten and made anew",
    "a denial caused by other regions only",
    "two regions saying in one round that they are here",
    "a row of a window that is over",
    "a lease that ended and was taken anew",
    "a row written again",
    "rows that the ledger lost written again",
    "an import that was cut",
    "a region without the ledger that went on limiting",
    "rows that waited for the budget",
    "an import from a replica that lags",
    "a row refused for what it is",
};

template <typename T, size_t N>
T one_of(Random& random, const std::array<T, N>& choices) {
  return choices[static_cast<size_t>(random.between(0, static_cast<int64_t>(N) - 1))];
}

}  // namespace

std::string_view to_string(Mark mark) {
  return kMarkNames[static_cast<size_t>(mark)];
}

struct World::Tuple {
  std::string identifier;
  Millis duration{0};
  int64_t limit = 0;
  Algorithm algorithm = Algorithm::kSlidingWindow;
  int64_t other_limit = 0;  // what other regions than the first ask with

  [[nodiscard]] int64_t limit_in(int region) const { return region == 0 ? limit : other_limit; }
};

World::World(const WorldOptions& options)
    : options_(options), random_(options.seed), timeline_(random_.next()) {
  const bool fair = options.weather == Weather::kFair;
  replay_within_ = one_of(random_, std::array{Millis(0), Millis(100), Millis(250), Millis(250)});
  promises_ = {
      .max_freshness = one_of(random_, std::array{Millis(500), Millis(2000), Millis(5000)}),
      .read_deadline = options.read_deadline,
      .on_origin_loss = options.on_origin_loss,
      .told_within = replay_within_ + 2 * kReplayEvery,
      .asked_within = kAskEvery,
      .clocks_apart = kMostSkew};
  most_between_misfortunes_ =
      one_of(random_, std::array{Millis(1500), Millis(4000), Millis(12'000)});

  const auto count = options.regions > 0 ? options.regions : random_.between(1, 3);
  options_.regions = static_cast<int>(count);
  for (int i = 0; i < count; ++i) make_region();
  if (count > 1) make_ledger();
  if (!fair && random_.one_in(2)) {
    unsteady_ = regions_.front()->nodes.front().get();
    promises_.clocks_apart = kMostApart;
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
  const int64_t few = options_.regions == 1 ? 2 : 1;
  const auto count = options_.nodes > 0 ? options_.nodes : random_.between(few, few + 2);
  for (int i = 0; i < count; ++i) {
    region.nodes.push_back(
        std::make_unique<Node>(timeline_, index, i, Millis(random_.between(0, kMostSkew.count()))));
    LinkFaults& usual = region.nodes.back()->usual;
    usual.most_delay = Millis(random_.between(0, 3) == 0 ? 250 : random_.between(1, 60));
    usual.lose_permille = one_of(random_, std::array<int64_t, 3>{0, 50, 250});
    usual.repeat_permille = one_of(random_, std::array<int64_t, 2>{0, 125});
    if (options_.weather == Weather::kFair) {
      usual = {.most_delay = Millis(random_.between(1, kMostFairDelay.count()))};
    }
  }
  region_views_.push_back({.name = region.name, .truth = region.truth, .nodes = region.views});
}

void World::make_ledger() {
  SharingRules rules;
  rules.lease = one_of(random_, std::array{Millis(7000), Millis(12'000), Millis(600'000)});
  const bool fair = options_.weather == Weather::kFair;
  scarce_ = !fair && random_.one_in(4);
  if (scarce_) rules.rows_per_second = static_cast<uint32_t>(random_.between(1, 4));
  ledger_ = std::make_unique<WatchedLedger>(
      timeline_, rules, [this](const Committed& committed) { witness_commit(committed); });
  for (const auto& region : regions_) ledger_->know(region->name);
  const bool lossy = !fair && random_.one_in(2);
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
    tuples_.push_back(tuple);
  }
}

World::~World() {
  let_go();
}

Request World::request_of(const Node& node, const Tuple& tuple, Count cost) const {
  return {.name_space = "sim",
          .identifier = tuple.identifier,
          .limit = tuple.limit_in(node.region),
          .duration = tuple.duration,
          .cost = static_cast<int64_t>(cost),
          .algorithm = tuple.algorithm};
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
  const SharingRules& rules = ledger_->rules();
  const auto period = [](Millis every) { return every + every / 5 + kReplayEvery; };
  const Millis known = promises_.told_within + 2 * origin + kReplayEvery;
  const Millis landed = 2 * ledger + kReplayEvery;
  const Millis head_start = period(rules.publish_every) + std::max(rules.publish_every, landed);
  const Millis turn = head_start + 2 * period(rules.publish_every) + 2 * origin + kReplayEvery;
  return {.publish = known + landed + turn + ledger,
          .import = period(rules.import_every) + 2 * ledger + kReplayEvery};
}

RunReport World::run() {
  const bool fair = options_.weather == Weather::kFair;
  for_each_node([this](Node& node) { begin_life(node); });
  // Where nothing goes wrong processes have heard of each other before they are asked.
  if (fair) trouble_began_.reset();
  timeline_.post_in(fair ? Millis(2000) : Millis(0), [this] { schedule_traffic(); });
  if (!fair) {
    schedule_misfortune();
    if (unsteady_ != nullptr) schedule_clock();
    if (random_.one_in(2)) schedule_last_deaths();
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
            2 * (promises_.max_freshness + promises_.told_within + kAskEvery + Millis(500)) +
            Millis(1000));
  asking_ = false;
  run_until(timeline_.now().mono + 2 * (promises_.read_deadline + promises_.told_within));
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
    seen.sharing = {};
    if (!node.runs()) return;
    seen.sharing = node.engine->sharing_stats();
    if (scarce_ && seen.sharing.waiting > 0 && seen.sharing.budget_used > 0.99) {
      mark(Mark::kRowsWaited);
    }
    node.engine->inspect_sharing(
        node.clock.now(), [&](const limiter::SharedCell& cell) { seen.shared.push_back(cell); });
  });
  check_fleet([](FleetChecker& checker, const FleetView& all) { return checker.at_audit(all); });
}

void World::witness_commit(const Committed& committed) {
  report_.rows += committed.news.rows.size();
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
  for_each_node([this](const Node& node) {
    if (node.runs()) report_.evicted += node.engine->stats().evicted;
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
      report_.died_untold += missing.died_untold;
      report_.lost_with_origin += missing.lost_with_origin;
    }
  }
}

Region& World::any_region() {
  return *regions_[static_cast<size_t>(
      random_.between(0, static_cast<int64_t>(regions_.size()) - 1))];
}

Node* World::any_that_serves() {
  std::vector<Node*> serving;
  for_each_node([&](Node& node) {
    if (node.serves() && (!busy_ || *busy_ == node.region)) serving.push_back(&node);
  });
  if (serving.empty()) return nullptr;
  return serving[static_cast<size_t>(random_.between(0, static_cast<int64_t>(serving.size()) - 1))];
}

// Where there are regions, now one is asked, now all, now nobody: what is held back shows only
// when those who held it back are silent.
void World::choose_mood() {
  const MonoTime now = timeline_.now().mono;
  if (!ledger_ || now < mood_until_) return;
  mood_until_ = now + Millis(random_.between(300, 3000));
  busy_.reset();
  quiet_ = random_.one_in(4);
  if (random_.one_in(2)) busy_ = any_region().index;
}

void World::schedule_traffic() {
  timeline_.post_in(Millis(random_.between(1, 30)), [this] {
    if (!stormy_) return;
    schedule_traffic();
    choose_mood();
    if (quiet_) return;
    Node* const node = any_that_serves();
    if (node == nullptr) return;
    if (options_.room == Room::kScarce && random_.one_in(4)) return pass_by(*node);
    if (random_.one_in(5)) return ask_batch(*node);
    const Tuple& tuple = tuples_[static_cast<size_t>(random_.between(0, 3))];
    const int64_t most = random_.one_in(20) ? tuple.limit_in(node->region) + 1 : 3;
    ask_one(*node, tuple, static_cast<Count>(random_.between(0, most)));
  });
}

// Everyone about everything, without consuming.
void World::schedule_asking() {
  timeline_.post_in(kAskEvery, [this] {
    if (!asking_) return;
    schedule_asking();
    for_each_node([this](Node& node) {
      for (const Tuple& tuple : tuples_) {
        if (node.serves()) ask_one(node, tuple, 0);
      }
    });
  });
}

Answered World::question(const Node& node, const Tuple& tuple, Count cost) const {
  return {.node = node.index,
          .account = {.life = node.life->number},
          .tuple = memory::TupleKey(request_of(node, tuple, cost), base::KeyedHash(0)).encoded(),
          .duration = tuple.duration,
          .algorithm = tuple.algorithm,
          .limit = static_cast<Count>(tuple.limit_in(node.region)),
          .cost = cost,
          .asked = node.clock.now(),
          .verdict = {}};
}

void World::ask_one(Node& node, const Tuple& tuple, Count cost) {
  const Instant now = node.clock.now();
  const Request request = request_of(node, tuple, cost);
  if (options_.plant == Plant::kDoubleCharge && random_.one_in(20)) {
    static_cast<void>(node.engine->check(now, request));
  }
  ++node.under_way;
  node.touched = true;
  node.engine->check_async(
      now, request, *node.process,
      [this, &node, process = node.process,
       answered = question(node, tuple, cost)](const Result<Verdict>& verdict) mutable {
        if (!process->alive()) return;
        answered.verdict = *verdict;
        answered.charged = verdict->admitted() && answered.cost > 0;
        answer(node, {answered}, "single");
      });
}

// Someone who asks once, and whose tuple is fuller than those of the others often are.
void World::pass_by(Node& node) {
  const Tuple passer{.identifier = "passer-" + std::to_string(passers_++),
                     .duration = Millis(5000),
                     .limit = 2,
                     .other_limit = 2};
  ask_one(node, passer, 1);
}

void World::ask_batch(Node& node) {
  std::vector<Request> requests;
  std::vector<Answered> answers;
  const int64_t size = random_.between(2, 4);
  for (int64_t i = 0; i < size; ++i) {
    const Tuple& tuple = tuples_[static_cast<size_t>(random_.between(0, 3))];
    const auto cost = static_cast<Count>(random_.between(0, 3));
    requests.push_back(request_of(node, tuple, cost));
    answers.push_back(question(node, tuple, cost));
    answers.back().in_batch = true;
  }
  ++node.under_way;
  node.touched = true;
  node.engine->check_all_async(
      node.clock.now(), requests, *node.process,
      [this, &node, process = node.process, answers](const Result<BatchVerdict>& verdict) mutable {
        if (!process->alive()) return;
        for (size_t i = 0; i < answers.size(); ++i) {
          answers[i].verdict = verdict->items[i];
          answers[i].charged = verdict->admitted() && answers[i].cost > 0;
        }
        if (!verdict->admitted()) mark(Mark::kBatchRefused);
        answer(node, answers, "batch");
      });
}

void World::answer(Node& node, std::vector<Answered> answers, const std::string& what) {
  --node.under_way;
  look();
  const NodeView& seen = region_of(node).views[static_cast<size_t>(node.index)];
  const bool late = std::any_of(answers.begin(), answers.end(),
                                [](const Answered& each) { return each.outlived(); });
  for (Answered& answered : answers) {
    answered.answered = node.clock.now();
    answered.late = late;
    answered.account.generation = seen.generation_of(answered.tuple);
    if (!is_sketched(answered)) region_of(node).truth.record(answered);
  }
  for (const Answered& answered : answers) {
    const Verdict& verdict = answered.verdict;
    ++(verdict.admitted() ? report_.admitted : report_.denied);
    note(what + " on node " + std::to_string(answered.node) +
             (ledger_ ? " of " + region_of(node).name : "") + ": cost " +
             std::to_string(answered.cost) + " of " + std::to_string(answered.limit) +
             " in window " + std::to_string(answered.cell().sequence) + " " +
             std::string(weir::to_string(verdict.outcome)) + ", own " +
             std::to_string(verdict.evidence.own) + ", siblings " +
             std::to_string(verdict.evidence.siblings) + ", foreign " +
             std::to_string(verdict.evidence.foreign) + ", " +
             std::string(weir::to_string(verdict.basis)),
         verdict.remaining);
    if (is_sketched(answered)) {
      ++report_.sketched;
      continue;
    }
    mark_answer(node, answered);
    const Region& region = region_of(node);
    check(region, [&](Checker& checker) { return checker.after_answer(view(region), answered); });
    check_fleet([&](FleetChecker& checker, const FleetView& all) {
      return checker.after_answer(all, node.region, answered);
    });
  }
}

// Counted where nothing is told apart or told on: in the sketch, as the degraded verdict says.
bool World::is_sketched(const Answered& answered) const {
  return options_.room == Room::kScarce && answered.account.generation == 0 &&
         answered.verdict.basis == Basis::kDegraded;
}

void World::mark_answer(const Node& node, const Answered& answered) {
  const Verdict& verdict = answered.verdict;
  const Evidence& evidence = verdict.evidence;
  Region& region = region_of(node);
  if (ledger_ && node.ledger->faults.road != Road::kOpen) {
    ++(verdict.admitted() ? region.admitted_alone : region.denied_alone);
  }
  if (verdict.basis == Basis::kDegraded) {
    mark(Mark::kDegradedVerdict);
    if (node.isolated) mark(Mark::kIsolatedNodeDecided);
  }
  if (verdict.outcome == Outcome::kDenied) {
    const Count rest = evidence.own + evidence.previous + answered.cost;
    const Count here = rest + evidence.siblings;
    if (here <= answered.limit) mark(Mark::kDeniedByForeignOnly);
    if (here > answered.limit && rest <= answered.limit) mark(Mark::kDeniedBySiblingsOnly);
  }
  const int64_t asked_in = answered.asked.wall.time_since_epoch() / answered.duration;
  const int64_t answered_in = answered.answered.wall.time_since_epoch() / answered.duration;
  if (asked_in < answered_in) mark(Mark::kReadAcrossRollOver);
  if (answered.charged && answered.cell().sequence > std::max(asked_in, answered_in)) {
    mark(Mark::kDecidedWithClockSetBack);
  }
  if (answered.charged && region.truth.accepted(answered.cell()) > answered.limit) {
    mark(Mark::kLimitExceededInFlight);
  }
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
    node.engine->inspect([&](const limiter::CellView& cell) { seen.cells.push_back(cell); });
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
          .now = timeline_.now(),
          .promises = promises_,
          .delays = delays(),
          .troubled_since = troubled ? trouble_began_ : std::nullopt,
          .blamed = blamed_,
          .fair = options_.weather == Weather::kFair,
          .scarce = scarce_,
          .failed_over = failed_over_,
          .calm_since = calm_since_};
}

void World::check(const Region& region, const std::function<Checker::Fault(Checker&)>& ask) {
  for (const auto& checker : region.checkers) {
    if (report_.broken || over_) return;
    if (!options_.only.empty() && checker->name() != options_.only) continue;
    if (const Checker::Fault fault = ask(*checker)) {
      report_.broken = std::string(checker->name()) + ": " + *fault;
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
      report_.broken = std::string(checker->name()) + ": " + *fault;
    }
  }
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
