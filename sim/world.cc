#include "sim/world.h"

#include <array>

#include "memory/tuple_key.h"

namespace weir::sim {
namespace {

constexpr Millis kReadDeadline{300};
constexpr Millis kMaxFreshness{5000};
constexpr Millis kReplayEvery{10};
constexpr size_t kLastEvents = 20;

constexpr std::array<std::string_view, static_cast<size_t>(Mark::kCount)> kMarkNames = {
    "a denial caused by siblings only",  "a degraded verdict",
    "a roll-over with a read in flight", "a replay applied although its reply was lost",
    "the origin back with empty memory", "a batch refused",
    "a message delivered twice",
};

}  // namespace

std::string_view to_string(Mark mark) {
  return kMarkNames[static_cast<size_t>(mark)];
}

struct World::Node {
  Node(World& world, int number, uint64_t seed)
      : index(number),
        clock(world.timeline_, Millis(world.random_.between(0, 20))),
        link(std::make_shared<LossyLink>(world.timeline_, world.origin_.door_of(number), seed)),
        engine(limiter::Engine::make(clock, {.origin = link,
                                             .read_deadline = kReadDeadline,
                                             .max_freshness = kMaxFreshness,
                                             .capacity = 64,
                                             .seed = seed})) {}
  int index;
  SkewedClock clock;
  std::shared_ptr<LossyLink> link;
  std::shared_ptr<limiter::Engine> engine;
};

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
      origin_(timeline_, [this](int node, const CellReplay& told) {
        check([&](Checker& checker) { return checker.after_replay(view(), node, told); });
      }) {
  for (int i = 0; i < options.nodes; ++i) {
    nodes_.push_back(std::make_unique<Node>(*this, i, random_.next()));
    LinkFaults& faults = nodes_.back()->link->faults;
    faults.most_delay = Millis(random_.between(0, 3) == 0 ? 250 : random_.between(1, 60));
    faults.lose_one_in = std::array<int64_t, 3>{0, 20, 4}[random_.between(0, 2)];
    faults.repeat_one_in = std::array<int64_t, 2>{0, 8}[random_.between(0, 1)];
  }
  const std::array<Millis, 3> durations = {Millis(1000), Millis(2000), Millis(5000)};
  for (int i = 0; i < 4; ++i) {
    tuples_.push_back(
        {.identifier = "user-" + std::to_string(i),
         .duration = durations[random_.between(0, 2)],
         .limit = random_.between(1, 40),
         .algorithm = random_.one_in(3) ? Algorithm::kFixedWindow : Algorithm::kSlidingWindow});
  }
}

World::~World() = default;

Request World::request_of(const Tuple& tuple, Count cost) const {
  return {.name_space = "sim",
          .identifier = tuple.identifier,
          .limit = tuple.limit,
          .duration = tuple.duration,
          .cost = static_cast<int64_t>(cost),
          .algorithm = tuple.algorithm};
}

RunReport World::run() {
  for (const auto& node : nodes_) schedule_replay(*node);
  schedule_traffic();
  schedule_forgetting();
  look();
  run_until(timeline_.now().mono + options_.stormy);
  make_calm();
  run_until(timeline_.now().mono + options_.calm);
  check([&](Checker& checker) { return checker.at_end(view()); });
  for (const auto& node : nodes_) {
    const LinkMarks& marks = node->link->marks;
    report_.marks[Mark::kReplayAppliedButReplyLost] += marks.lost_replies;
    report_.marks[Mark::kMessageRepeated] += marks.repeated;
  }
  return std::move(report_);
}

void World::run_until(MonoTime end) {
  while (!report_.broken && timeline_.step(end)) {
    ++report_.events;
    look();
    check([&](Checker& checker) { return checker.after_event(view()); });
  }
}

// Faults stop; everyone asks for everything again without consuming, so that each node
// reads each cell once more, and goes on telling.
void World::make_calm() {
  stormy_ = false;
  for (const auto& node : nodes_) {
    node->link->faults = {.most_delay = node->link->faults.most_delay > kReadDeadline / 2
                                            ? kReadDeadline / 4
                                            : node->link->faults.most_delay};
    for (int round = 1; round <= 8; ++round) {
      for (const Tuple& tuple : tuples_) {
        timeline_.post_in(options_.calm - Millis(8 * 600) + Millis(round * 600) - Millis(300),
                          [this, &node, &tuple] { ask_one(*node, tuple, 0); });
      }
    }
  }
}

void World::schedule_traffic() {
  timeline_.post_in(Millis(random_.between(1, 30)), [this] {
    if (!stormy_) return;
    Node& node = *nodes_[static_cast<size_t>(random_.between(0, options_.nodes - 1))];
    if (random_.one_in(5)) {
      ask_batch(node);
    } else {
      const Tuple& tuple = tuples_[static_cast<size_t>(random_.between(0, 3))];
      const int64_t most = random_.one_in(20) ? tuple.limit + 1 : 3;
      ask_one(node, tuple, static_cast<Count>(random_.between(0, most)));
    }
    schedule_traffic();
  });
}

void World::schedule_replay(Node& node) {
  timeline_.post_in(kReplayEvery, [this, &node] {
    node.engine->run_replay(node.clock.now(), timeline_);
    schedule_replay(node);
  });
}

void World::schedule_forgetting() {
  timeline_.post_in(Millis(random_.between(2000, 12'000)), [this] {
    if (!stormy_) return;
    origin_.forget_all();
    mark(Mark::kOriginCameBackEmpty);
    note("the origin forgot everything", 0);
    schedule_forgetting();
  });
}

void World::ask_one(Node& node, const Tuple& tuple, Count cost) {
  const Instant now = node.clock.now();
  const Request request = request_of(tuple, cost);
  Answered answered{.node = node.index,
                    .tuple = memory::TupleKey(request, base::KeyedHash(0)).encoded(),
                    .duration = tuple.duration,
                    .algorithm = tuple.algorithm,
                    .limit = static_cast<Count>(tuple.limit),
                    .cost = cost,
                    .asked = now,
                    .verdict = {}};
  node.engine->check_async(now, request, timeline_,
                           [this, &node, answered](const Result<Verdict>& verdict) mutable {
                             answered.verdict = *verdict;
                             answered.charged = verdict->admitted() && answered.cost > 0;
                             answered.answered = node.clock.now();
                             answer({answered}, "single");
                           });
}

void World::ask_batch(Node& node) {
  const Instant now = node.clock.now();
  std::vector<Request> requests;
  std::vector<Answered> answers;
  const int64_t size = random_.between(2, 4);
  for (int64_t i = 0; i < size; ++i) {
    const Tuple& tuple = tuples_[static_cast<size_t>(random_.between(0, 3))];
    const auto cost = static_cast<Count>(random_.between(0, 3));
    requests.push_back(request_of(tuple, cost));
    answers.push_back({.node = node.index,
                       .tuple = memory::TupleKey(requests.back(), base::KeyedHash(0)).encoded(),
                       .duration = tuple.duration,
                       .algorithm = tuple.algorithm,
                       .limit = static_cast<Count>(tuple.limit),
                       .cost = cost,
                       .asked = now,
                       .in_batch = true,
                       .verdict = {}});
  }
  node.engine->check_all_async(now, requests, timeline_,
                               [this, &node, answers](const Result<BatchVerdict>& verdict) mutable {
                                 for (size_t i = 0; i < answers.size(); ++i) {
                                   answers[i].verdict = verdict->items[i];
                                   answers[i].charged = verdict->admitted() && answers[i].cost > 0;
                                   answers[i].answered = node.clock.now();
                                 }
                                 if (!verdict->admitted()) mark(Mark::kBatchRefused);
                                 answer(answers, "batch");
                               });
}

void World::answer(std::vector<Answered> answers, std::string what) {
  for (const Answered& answered : answers) truth_.record(answered);
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
    if (verdict.basis == Basis::kDegraded) mark(Mark::kDegradedVerdict);
    const Evidence& evidence = verdict.evidence;
    if (verdict.outcome == Outcome::kDenied &&
        evidence.own + evidence.previous + answered.cost <= answered.limit) {
      mark(Mark::kDeniedBySiblingsOnly);
    }
    if (answered.asked.wall.time_since_epoch() / answered.duration !=
        answered.answered.wall.time_since_epoch() / answered.duration) {
      mark(Mark::kReadAcrossRollOver);
    }
    check([&](Checker& checker) { return checker.after_answer(view(), answered); });
  }
}

void World::look() {
  views_.clear();
  for (const auto& node : nodes_) {
    NodeView seen{.node = node->index,
                  .incarnation = node->engine->incarnation(),
                  .now = node->clock.now(),
                  .cells = {}};
    node->engine->inspect([&](const limiter::CellView& cell) { seen.cells.push_back(cell); });
    views_.push_back(std::move(seen));
  }
}

WorldView World::view() const {
  return {.truth = truth_,
          .origin = origin_,
          .nodes = views_,
          .now = timeline_.now().wall,
          .max_freshness = kMaxFreshness,
          .read_deadline = kReadDeadline};
}

template <typename Ask>
void World::check(const Ask& ask) {
  for (const auto& checker : checkers_) {
    if (report_.broken) return;
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
