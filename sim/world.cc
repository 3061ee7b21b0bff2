#include "sim/world.h"

#include <algorithm>
#include <array>

#include "limiter/freshness.h"
#include "memory/tuple_key.h"
#include "sim/missing.h"

namespace weir::sim {
namespace {

constexpr Millis kReadDeadline{300};
constexpr Millis kReplayEvery{10};
constexpr Millis kAskEvery{100};  // in calm
constexpr Millis kMostSkew{20};
constexpr Millis kMostApart{300};  // where a clock is set now and then
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
};

World::World(const WorldOptions& options)
    : options_(options),
      random_(options.seed),
      timeline_(random_.next()),
      origin_(timeline_, random_.one_in(2) ? Writing::kRaise : Writing::kSet, options.plant,
              [this](const Written& written) {
                check([&](Checker& checker) { return checker.after_write(view(), written); });
              }) {
  replay_within_ = one_of(random_, std::array{Millis(0), Millis(100), Millis(250), Millis(250)});
  promises_ = {
      .max_freshness = one_of(random_, std::array{Millis(500), Millis(2000), Millis(5000)}),
      .read_deadline = kReadDeadline,
      .told_within = replay_within_ + 2 * kReplayEvery,
      .asked_within = kAskEvery,
      .clocks_apart = kMostSkew};
  most_between_misfortunes_ =
      one_of(random_, std::array{Millis(1500), Millis(4000), Millis(12'000)});

  const auto count = options.nodes > 0 ? options.nodes : random_.between(2, 4);
  for (int i = 0; i < count; ++i) {
    nodes_.push_back(
        std::make_unique<Node>(timeline_, i, Millis(random_.between(0, kMostSkew.count()))));
    LinkFaults& usual = nodes_.back()->usual;
    usual.most_delay = Millis(random_.between(0, 3) == 0 ? 250 : random_.between(1, 60));
    usual.lose_one_in = one_of(random_, std::array<int64_t, 3>{0, 20, 4});
    usual.repeat_one_in = one_of(random_, std::array<int64_t, 2>{0, 8});
  }
  if (random_.one_in(2)) {
    unsteady_ = nodes_.front().get();
    promises_.clocks_apart = kMostApart;
  }
  // One window is so long that it is still there when all is calm.
  const std::array durations = {Millis(1000), Millis(2000), Millis(5000)};
  for (int i = 0; i < 4; ++i) {
    const bool is_long = i == 0;
    tuples_.push_back(
        {.identifier = "user-" + std::to_string(i),
         .duration = is_long ? Millis(60'000) : one_of(random_, durations),
         .limit = is_long ? random_.between(100, 2000) : random_.between(1, 40),
         .algorithm = random_.one_in(3) ? Algorithm::kFixedWindow : Algorithm::kSlidingWindow});
  }
}

World::~World() {
  let_go();
}

Request World::request_of(const Tuple& tuple, Count cost) const {
  return {.name_space = "sim",
          .identifier = tuple.identifier,
          .limit = tuple.limit,
          .duration = tuple.duration,
          .cost = static_cast<int64_t>(cost),
          .algorithm = tuple.algorithm};
}

RunReport World::run() {
  for (const auto& node : nodes_) begin_life(*node);
  schedule_traffic();
  schedule_misfortune();
  if (unsteady_ != nullptr) schedule_clock();
  if (random_.one_in(2)) schedule_last_deaths();
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
  look();
  check([&](Checker& checker) { return checker.at_end(view()); });
  sum_up();
  return std::move(report_);
}

void World::run_until(MonoTime end) {
  while (!report_.broken && timeline_.step(end)) {
    ++report_.events;
    // Most events are turns of a replay with nothing to tell, or messages on their way.
    const auto touched = [](const auto& node) { return node->touched; };
    if (std::none_of(nodes_.begin(), nodes_.end(), touched)) continue;
    look();
    check([&](Checker& checker) { return checker.after_event(view()); });
    for (const auto& node : nodes_) node->touched = false;
  }
}

void World::sum_up() {
  for (const auto& link : links_) {
    report_.marks[Mark::kReplayAppliedButReplyLost] += link->marks.lost_replies;
    report_.marks[Mark::kMessageRepeated] += link->marks.repeated;
    report_.marks[Mark::kSlowReply] += link->marks.slow_replies;
  }
  report_.marks[Mark::kEmptyOriginHealed] += origin_.healed(Loss::kForgot);
  report_.marks[Mark::kOldSnapshotHealed] += origin_.healed(Loss::kOldSnapshot);
  report_.marks[Mark::kLaggingReplicaHealed] += origin_.healed(Loss::kLaggingReplica);
  report_.marks[Mark::kLateWriteHealed] += origin_.healed(Loss::kLateWrite);
  for (const auto& [cell, accepted] : truth_.cells()) {
    if (!matters_at(cell, timeline_.now().wall)) continue;
    const Missing missing = missing_of(view(), cell);
    report_.accepted += accepted;
    report_.died_untold += missing.died_untold;
    report_.lost_with_origin += missing.lost_with_origin;
  }
}

Node* World::any_that_serves() {
  std::vector<Node*> serving;
  for (const auto& node : nodes_) {
    if (node->serves()) serving.push_back(node.get());
  }
  if (serving.empty()) return nullptr;
  return serving[static_cast<size_t>(random_.between(0, static_cast<int64_t>(serving.size()) - 1))];
}

void World::schedule_traffic() {
  timeline_.post_in(Millis(random_.between(1, 30)), [this] {
    if (!stormy_) return;
    schedule_traffic();
    Node* const node = any_that_serves();
    if (node == nullptr) return;
    if (random_.one_in(5)) return ask_batch(*node);
    const Tuple& tuple = tuples_[static_cast<size_t>(random_.between(0, 3))];
    const int64_t most = random_.one_in(20) ? tuple.limit + 1 : 3;
    ask_one(*node, tuple, static_cast<Count>(random_.between(0, most)));
  });
}

// Everyone about everything, without consuming.
void World::schedule_asking() {
  timeline_.post_in(kAskEvery, [this] {
    if (!asking_) return;
    schedule_asking();
    for (const auto& node : nodes_) {
      for (const Tuple& tuple : tuples_) {
        if (node->serves()) ask_one(*node, tuple, 0);
      }
    }
  });
}

Answered World::question(const Node& node, const Tuple& tuple, Count cost) const {
  return {.node = node.index,
          .life = node.life->number,
          .tuple = memory::TupleKey(request_of(tuple, cost), base::KeyedHash(0)).encoded(),
          .duration = tuple.duration,
          .algorithm = tuple.algorithm,
          .limit = static_cast<Count>(tuple.limit),
          .cost = cost,
          .asked = node.clock.now(),
          .verdict = {}};
}

void World::ask_one(Node& node, const Tuple& tuple, Count cost) {
  const Instant now = node.clock.now();
  const Request request = request_of(tuple, cost);
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

void World::ask_batch(Node& node) {
  std::vector<Request> requests;
  std::vector<Answered> answers;
  const int64_t size = random_.between(2, 4);
  for (int64_t i = 0; i < size; ++i) {
    const Tuple& tuple = tuples_[static_cast<size_t>(random_.between(0, 3))];
    const auto cost = static_cast<Count>(random_.between(0, 3));
    requests.push_back(request_of(tuple, cost));
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
  for (Answered& answered : answers) {
    answered.answered = node.clock.now();
    truth_.record(answered);
  }
  look();
  for (const Answered& answered : answers) {
    const Verdict& verdict = answered.verdict;
    ++(verdict.admitted() ? report_.admitted : report_.denied);
    note(what + " on node " + std::to_string(answered.node) + ": cost " +
             std::to_string(answered.cost) + " of " + std::to_string(answered.limit) +
             " in window " + std::to_string(answered.cell().sequence) + " " +
             std::string(weir::to_string(verdict.outcome)) + ", own " +
             std::to_string(verdict.evidence.own) + ", siblings " +
             std::to_string(verdict.evidence.siblings) + ", " +
             std::string(weir::to_string(verdict.basis)),
         verdict.remaining);
    mark_answer(node, answered);
    check([&](Checker& checker) { return checker.after_answer(view(), answered); });
  }
}

void World::mark_answer(const Node& node, const Answered& answered) {
  const Verdict& verdict = answered.verdict;
  const Evidence& evidence = verdict.evidence;
  if (verdict.basis == Basis::kDegraded) {
    mark(Mark::kDegradedVerdict);
    if (node.isolated) mark(Mark::kIsolatedNodeDecided);
  }
  if (verdict.outcome == Outcome::kDenied &&
      evidence.own + evidence.previous + answered.cost <= answered.limit) {
    mark(Mark::kDeniedBySiblingsOnly);
  }
  const int64_t asked_in = answered.asked.wall.time_since_epoch() / answered.duration;
  const int64_t answered_in = answered.answered.wall.time_since_epoch() / answered.duration;
  if (asked_in < answered_in) mark(Mark::kReadAcrossRollOver);
  if (answered.charged && answered.cell().sequence > std::max(asked_in, answered_in)) {
    mark(Mark::kDecidedWithClockSetBack);
  }
  if (answered.charged && truth_.accepted(answered.cell()) > answered.limit) {
    mark(Mark::kLimitExceededInFlight);
  }
}

void World::look() {
  views_.resize(nodes_.size());
  for (const auto& node : nodes_) {
    NodeView& seen = views_[static_cast<size_t>(node->index)];
    seen.node = node->index;
    seen.now = node->clock.now();
    seen.latest = node->clock.latest();
    seen.last_replay = node->last_replay;
    seen.reachable = node->runs() && node->link->reach() != Reach::kNone;
    seen.touched = node->touched;
    if (!node->touched) continue;
    seen.cells.clear();
    seen.life = node->runs() ? node->life->number : -1;
    if (!node->runs()) continue;
    seen.incarnation = node->engine->incarnation();
    node->engine->inspect([&](const limiter::CellView& cell) { seen.cells.push_back(cell); });
  }
}

WorldView World::view() const {
  return {.truth = truth_,
          .origin = origin_,
          .nodes = views_,
          .now = timeline_.now(),
          .promises = promises_,
          .calm_since = calm_since_};
}

void World::check(const std::function<Checker::Fault(Checker&)>& ask) {
  for (const auto& checker : checkers_) {
    if (report_.broken || over_) return;
    if (const Checker::Fault fault = ask(*checker)) {
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
