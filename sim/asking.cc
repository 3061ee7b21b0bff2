// Who asks the nodes of the world for what, and what becomes of the answers.

#include <algorithm>

#include "base/keyed_hash.h"
#include "memory/tuple_key.h"
#include "sim/world.h"

namespace weir::sim {

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
    const Tuple& tuple = any_tuple();
    const int64_t most = random_.one_in(20) ? tuple.limit_in(node->region) + 1 : 3;
    ask_one(*node, tuple, static_cast<Count>(random_.between(0, most)));
  });
}

// Of two tenants one asks more often.
const World::Tuple& World::any_tuple() {
  auto last = static_cast<int64_t>(tuples_.size()) - 1;
  if (options_.tenants && random_.one_in(2)) last = std::min<int64_t>(last, 1);
  return tuples_[static_cast<size_t>(random_.between(0, last))];
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
    for (const auto& [node, visitor] : visitors_) {
      if (node->serves()) ask_one(*node, visitor, 0);
    }
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
                     .duration = kPasserWindow,
                     .limit = 2,
                     .other_limit = 2};
  ask_one(node, passer, 1);
}

// One after the other, through the whole storm.
void World::schedule_visit() {
  const Millis every = options_.stormy / options_.visitors;
  timeline_.post_in(Millis(random_.between(1, 2 * every.count())), [this] {
    if (!stormy_ || static_cast<int>(visitors_.size()) >= options_.visitors) return;
    schedule_visit();
    if (Node* const node = any_that_serves()) visit(*node);
  });
}

// Someone who asks for little and, when others know of that, until he is refused; then never again:
// nothing but what the refusal left behind has it told.
void World::visit(Node& node) {
  const int64_t limit = random_.between(4, 7);
  const Tuple visitor{.identifier = "visitor-" + std::to_string(visitors_.size()),
                      .duration = Millis(60'000),
                      .limit = limit,
                      .other_limit = limit};
  visitors_.emplace_back(&node, visitor);
  ask_one(node, visitor, 1);
  timeline_.post_in(Millis(random_.between(1500, 4000)), [this, &node, visitor] {
    for (int64_t i = 0; i < visitor.limit && stormy_ && node.serves(); ++i) {
      ask_one(node, visitor, 1);
    }
  });
}

void World::ask_batch(Node& node) {
  std::vector<Request> requests;
  std::vector<Answered> answers;
  const int64_t size = random_.between(2, 4);
  for (int64_t i = 0; i < size; ++i) {
    const Tuple& tuple = any_tuple();
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
  for (Answered& answered : answers) {
    answered.answered = node.clock.now();
    answered.account.generation = seen.generation_of(answered.tuple);
    if (answered.is_local()) continue;
    Truth& truth = region_of(node).truth;
    is_sketched(answered) ? truth.record_sketched(answered) : truth.record(answered);
  }
  find_late(answers);
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
    const Region& region = region_of(node);
    if (is_sketched(answered)) ++report_.sketched;
    if (answered.is_local()) {
      mark(Mark::kLocalAlgorithm);
      check(region,
            [&](Checker& checker) { return checker.after_local_answer(view(region), answered); });
      continue;
    }
    if (is_sketched(answered) || is_timeless(answers)) continue;
    mark_answer(node, answered);
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

Request World::request_of(const Node& node, const Tuple& tuple, Count cost) const {
  return {.ns = tuple.ns,
          .identifier = tuple.identifier,
          .limit = tuple.limit_in(node.region),
          .duration = tuple.duration,
          .cost = static_cast<int64_t>(cost),
          .algorithm = tuple.algorithm};
}

}  // namespace weir::sim
