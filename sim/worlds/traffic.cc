// The requests of a world and their answers.

#include <algorithm>

#include "base/keyed_hash.h"
#include "memory/tuple_key.h"
#include "sim/worlds/world.h"

namespace weir::sim {

Node* World::any_serving_node() {
  std::vector<Node*> serving;
  for_each_node([&](Node& node) {
    if (is_awake(node) && (!busy_region_ || *busy_region_ == node.region)) serving.push_back(&node);
  });
  if (serving.empty()) return nullptr;
  return serving[static_cast<size_t>(random_.between(0, static_cast<int64_t>(serving.size()) - 1))];
}

// With several regions, sometimes one region gets requests, sometimes all, sometimes none:
// unpublished counts show only when their region is idle.
void World::choose_load() {
  const MonoTime now = timeline_.now().mono;
  if (!ledger_ || now < load_until_) return;
  load_until_ = now + Millis(random_.between(300, 3000));
  busy_region_.reset();
  idle_ = random_.one_in(4);
  if (random_.one_in(2)) busy_region_ = any_region().index;
}

void World::schedule_traffic() {
  timeline_.post_in(Millis(random_.between(1, 30)), [this] {
    if (!active_) return;
    schedule_traffic();
    choose_load();
    if (idle_) return;
    Node* const node = any_serving_node();
    if (node == nullptr) return;
    if (options_.table == TableSize::kSmall && random_.one_in(4))
      return send_one_time_request(*node);
    if (random_.one_in(5)) return send_batch(*node);
    const Tuple& tuple = random_tuple();
    const Count most = random_.one_in(20) ? tuple.limit_in(node->region) + 1 : 3;
    send_request(*node, tuple, static_cast<Count>(random_.between(0, static_cast<int64_t>(most))));
  });
}

// The same burst on all nodes of a region, often at the start of a window.
void World::schedule_bursts() {
  timeline_.post_in(Millis(random_.between(200, 3000)), [this] {
    if (!active_) return;
    schedule_bursts();
    const Tuple& tuple = random_tuple();
    const int region = any_region().index;
    const Millis rest = tuple.duration - timeline_.now().wall.time_since_epoch() % tuple.duration;
    const bool at_start = random_.one_in(2) && rest < Millis(5000);
    timeline_.post_in(at_start ? rest : Millis(0), [this, &tuple, region] {
      if (!active_) return;
      cover(Coverage::kBurst);
      const Count limit = std::min<Count>(tuple.limit_in(region), 60);
      const Count requests = static_cast<Count>(random_.between(1, static_cast<int64_t>(limit)));
      for_each_node([&](Node& node) {
        if (node.region != region) return;
        for (Count i = 0; i < requests && is_awake(node); ++i) send_request(node, tuple, 1);
      });
    });
  });
}

// With two tenants, one sends more requests.
const World::Tuple& World::random_tuple() {
  auto last = static_cast<int64_t>(tuples_.size()) - 1;
  if (options_.tenants && random_.one_in(2)) last = std::min<int64_t>(last, 1);
  return tuples_[static_cast<size_t>(random_.between(0, last))];
}

// Probes every node for every tuple, without cost.
void World::schedule_probes() {
  timeline_.post_in(kProbeEvery, [this] {
    if (!probing_) return;
    schedule_probes();
    for_each_node([this](Node& node) {
      for (const Tuple& tuple : tuples_) {
        if (is_awake(node)) send_request(node, tuple, 0);
      }
    });
    for (const auto& [node, visitor] : visitors_) {
      if (is_awake(*node)) send_request(*node, visitor, 0);
    }
  });
}

RequestRecord World::make_record(const Node& node, const Request& request) const {
  return {.node = node.index,
          .contributor = {.process = node.process->number},
          .tuple = memory::TupleKey(request, base::KeyedHash(0)).encoded(),
          .duration = request.duration,
          .algorithm = request.algorithm,
          .limit = request.limit,
          .cost = request.cost,
          .requested_at = node.clock.now(),
          .relaxed = request.consistency == Consistency::kRelaxed,
          .verdict = {}};
}

void World::send_request(Node& node, const Tuple& tuple, Count cost) {
  const Instant now = node.clock.now();
  const Request request = request_of(node, tuple, cost);
  if (options_.planted_bug == PlantedBug::kDoubleCharge && random_.one_in(20)) {
    static_cast<void>(node.engine->check(now, request));
  }
  ++node.in_flight;
  node.touched = true;
  node.engine->check_async(
      now, request, *node.executor,
      [this, &node, executor = node.executor,
       record = make_record(node, request)](const Result<Verdict>& verdict) mutable {
        if (!executor->alive()) return;
        record.verdict = *verdict;
        record.charged = verdict->admitted() && record.cost > 0;
        complete(node, {record}, "single");
      });
}

// One request for a tuple that is never requested again. Its tuple is often fuller than others.
void World::send_one_time_request(Node& node) {
  const Tuple one_time{.identifier = "passer-" + std::to_string(one_time_requests_++),
                       .duration = kOneTimeWindow,
                       .limit = 2,
                       .other_limit = 2};
  send_request(node, one_time, 1);
}

// One visitor after the other, as long as there are faults.
void World::schedule_visit() {
  const Millis every = options_.fault_time / options_.visitors;
  timeline_.post_in(Millis(random_.between(1, 2 * every.count())), [this] {
    if (!active_ || static_cast<int>(visitors_.size()) >= options_.visitors) return;
    schedule_visit();
    if (Node* const node = any_serving_node()) visit(*node);
  });
}

// A visitor sends one request and, when other regions know of it, requests until it is denied. It
// never returns, so only the state that the denial left can get its counts published.
void World::visit(Node& node) {
  const auto limit = static_cast<Count>(random_.between(4, 7));
  const Tuple visitor{.identifier = "visitor-" + std::to_string(visitors_.size()),
                      .duration = Millis(60'000),
                      .limit = limit,
                      .other_limit = limit};
  visitors_.emplace_back(&node, visitor);
  send_request(node, visitor, 1);
  timeline_.post_in(Millis(random_.between(1500, 4000)), [this, &node, visitor] {
    for (Count i = 0; i < visitor.limit && active_ && is_awake(node); ++i) {
      send_request(node, visitor, 1);
    }
  });
}

void World::send_batch(Node& node) {
  std::vector<Request> requests;
  std::vector<RequestRecord> records;
  const int64_t size = random_.between(2, 4);
  for (int64_t i = 0; i < size; ++i) {
    const Tuple& tuple = random_tuple();
    const auto cost = static_cast<Count>(random_.between(0, 3));
    requests.push_back(request_of(node, tuple, cost));
    records.push_back(make_record(node, requests.back()));
    records.back().in_batch = true;
  }
  ++node.in_flight;
  node.touched = true;
  node.engine->check_all_async(node.clock.now(), requests, *node.executor,
                               [this, &node, executor = node.executor,
                                records](const Result<BatchVerdict>& verdict) mutable {
                                 if (!executor->alive()) return;
                                 for (size_t i = 0; i < records.size(); ++i) {
                                   records[i].verdict = verdict->items[i];
                                   records[i].charged = verdict->admitted() && records[i].cost > 0;
                                 }
                                 if (!verdict->admitted()) cover(Coverage::kBatchRefused);
                                 complete(node, records, "batch");
                               });
}

void World::complete(Node& node, std::vector<RequestRecord> records, const std::string& what) {
  --node.in_flight;
  monitor_.record(node, records);
  monitor_.after_wait(node, records.front().requested_at.mono);
  cover_relaxed(records);
  for (const RequestRecord& record : records) {
    const Verdict& verdict = record.verdict;
    ++(verdict.admitted() ? report_.admitted : report_.denied);
    note(what + " on node " + std::to_string(record.node) +
             (ledger_ ? " of " + region_of(node).name : "") + ": cost " +
             std::to_string(record.cost) + " of " + std::to_string(record.limit) + " in window " +
             std::to_string(record.cell().sequence) + " " +
             std::string(weir::to_string(verdict.outcome)) + ", own " +
             std::to_string(verdict.evidence.own) + ", siblings " +
             std::to_string(verdict.evidence.siblings) + ", foreign " +
             std::to_string(verdict.evidence.foreign) + ", " +
             std::string(weir::to_string(verdict.basis)) + (record.relaxed ? ", relaxed" : ""),
         verdict.remaining);
    if (monitor_.is_sketched(record)) ++report_.sketched;
    if (record.is_local()) {
      cover(Coverage::kLocalAlgorithm);
      cover_exact_answer(node, record);
    } else if (!monitor_.is_sketched(record) && !has_unknown_decision_time(records)) {
      cover_answer(node, record);
    }
    monitor_.after_answer(node, record, records);
  }
}

void World::cover_exact_answer(const Node& node, const RequestRecord& record) {
  Region& region = region_of(node);
  if (record.relaxed || !region.has_origin) return;
  if (region.origin->exact_history(record.tuple) == nullptr) return;
  const Verdict& verdict = record.verdict;
  if (verdict.basis == Basis::kLocal) {
    if (verdict.outcome == Outcome::kDenied) cover(Coverage::kExactKnownDenial);
    if (record.charged) cover(Coverage::kExactByAllowance);
  }
  const std::pair by(record.tuple, node.process->incarnation);
  if (record.charged && verdict.basis == Basis::kLocal) region.admitted_alone[by] += record.cost;
  if (record.charged && verdict.basis == Basis::kDegraded) region.degraded.insert(by);
}

void World::cover_relaxed(const std::vector<RequestRecord>& records) {
  const auto relaxed = [](const RequestRecord& record) { return record.relaxed; };
  if (std::any_of(records.begin(), records.end(), relaxed) &&
      !std::all_of(records.begin(), records.end(), relaxed)) {
    cover(Coverage::kMixedBatch);
  }
  for (const RequestRecord& record : records) {
    if (!record.relaxed || !record.charged) continue;
    cover(record.is_local() ? Coverage::kRelaxedState : Coverage::kRelaxedWindow);
    if (record.verdict.basis == Basis::kRefreshed) cover(Coverage::kRelaxedRead);
  }
}

void World::cover_answer(const Node& node, const RequestRecord& record) {
  const Verdict& verdict = record.verdict;
  const Evidence& evidence = verdict.evidence;
  Region& region = region_of(node);
  if (ledger_ && node.ledger->faults.connectivity != Connectivity::kUp) {
    ++(verdict.admitted() ? region.admitted_isolated : region.denied_isolated);
  }
  if (verdict.basis == Basis::kDegraded) {
    cover(Coverage::kDegradedVerdict);
    if (node.isolated) cover(Coverage::kIsolatedNodeDecided);
  }
  if (verdict.outcome == Outcome::kDenied) {
    const Count rest = evidence.own + evidence.previous + record.cost;
    const Count here = rest + evidence.siblings;
    if (here <= record.limit) cover(Coverage::kDeniedByForeignOnly);
    if (here > record.limit && rest <= record.limit) cover(Coverage::kDeniedBySiblingsOnly);
  }
  const int64_t asked_in = record.requested_at.wall.time_since_epoch() / record.duration;
  const int64_t answered_in = record.answered_at.wall.time_since_epoch() / record.duration;
  if (asked_in < answered_in) cover(Coverage::kReadAcrossRollOver);
  if (record.charged && record.cell().sequence > std::max(asked_in, answered_in)) {
    cover(Coverage::kDecidedWithClockSetBack);
  }
  if (record.charged && monitor_.oracle(node.region).accepted(record.cell()) > record.limit) {
    cover(Coverage::kLimitExceededInFlight);
  }
}

Request World::request_of(const Node& node, const Tuple& tuple, Count cost) {
  const bool relaxed =
      tuple.asked == Asked::kRelaxed || (tuple.asked == Asked::kMixed && random_.one_in(2));
  return {.ns = tuple.ns,
          .identifier = tuple.identifier,
          .limit = tuple.limit_in(node.region),
          .duration = tuple.duration,
          .cost = cost,
          .algorithm = tuple.algorithm,
          .consistency = relaxed ? std::optional(Consistency::kRelaxed) : std::nullopt};
}

}  // namespace weir::sim
