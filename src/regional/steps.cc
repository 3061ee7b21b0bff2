#include "regional/steps.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "algorithms/windows.h"
#include "base/wide.h"
#include "memory/tentative.h"
#include "regional/freshness.h"
#include "regional/step_line.h"

namespace weir::regional {

using memory::CellDecision;
using memory::Effect;
using memory::Tuple;
using memory::WindowCells;
using telemetry::Stat;

namespace {

// A step with more asks would keep the origin busy for too long.
constexpr size_t kMostAsks = 256;
// How often a request may be asked for again because a new window began or counts were missing.
constexpr int kMostRounds = 4;
// The generations of steps without a tuple begin here. Those of tuples have 26 bits.
constexpr uint64_t kApart = uint64_t{1} << 32;

}  // namespace

Steps::Finished::~Finished() {
  for (const WaiterPtr& waiter : waiters_) {
    waiter->caller.home->post([waiter] { waiter->done(waiter->results); });
  }
}

Steps::Steps(std::shared_ptr<memory::TupleStore> tuples, std::shared_ptr<RegionState> region,
             std::shared_ptr<memory::PublishWatch> publish_watch,
             std::shared_ptr<const Merger> merger,
             std::shared_ptr<telemetry::LimiterCounters> counters)
    : tuples_(std::move(tuples)),
      region_(std::move(region)),
      publish_watch_(std::move(publish_watch)),
      merger_(std::move(merger)),
      counters_(std::move(counters)) {}

Steps::~Steps() = default;

void Steps::ask(Instant now, const std::vector<StepRequest>& requests, const Caller& caller,
                StepHandler done) {
  // Not make_shared: the timer's weak pointer would keep the memory.
  const WaiterPtr waiter(new Waiter);
  waiter->caller = caller;
  if (memory::mutated(memory::Mutation::kDeadlinePerAnswer)) {
    waiter->caller.deadline = now.mono + region_->read_deadline;
  }
  waiter->asked = now.mono;
  waiter->done = std::move(done);
  waiter->results.resize(requests.size());
  waiter->pending.set(requests.size());
  if (!waiter->caller.has_time(now.mono)) {
    caller.home->post([waiter] { waiter->done(waiter->results); });
    return;
  }
  for (const StepRequest& request : requests) waiter->keys.push_back(*request.key);

  caller.home->post_at(waiter->caller.deadline,
                       [self = shared_from_this(), waiting = std::weak_ptr(waiter)] {
                         if (const WaiterPtr late = waiting.lock()) self->expire(late);
                       });
  std::vector<FlightPtr> flights;
  for (size_t i = 0; i < requests.size(); ++i) {
    Shard& shard = shard_of(*requests[i].key);
    const base::MutexLock lock(shard.mutex);
    drop_idle_lines(shard, now.mono);
    Line& line = shard.lines[requests[i].key->encoded()];
    line.waiting.push_back({.waiter = waiter, .entry = i, .query = *requests[i].query});
    if (FlightPtr flight = next_flight(line, now)) flights.push_back(std::move(flight));
  }
  launch(flights);
}

void Steps::drop_idle_lines(Shard& shard, MonoTime now) {
  while (!shard.paced.empty() && shard.paced.front().first <= now) {
    const auto found = shard.lines.find(shard.paced.front().second);
    if (found != shard.lines.end() && found->second.is_idle(now)) shard.lines.erase(found);
    shard.paced.pop_front();
  }
}

// The next step of a line, if it may start now. The caller holds the lock of the shard.
Steps::FlightPtr Steps::next_flight(Line& line, Instant now) {
  // A step without a reply does not block the line for longer than a request would wait.
  if (line.flight != nullptr && !line.flight->ended &&
      now.mono - line.flight->began.mono >= region_->read_deadline) {
    if (line.flight->may_repeat()) {
      ++line.flight->repeats;
      line.flight->began = now;
      return line.flight;
    }
    (void)end(*line.flight);
    report_again(*line.flight);
    line.put_back(std::exchange(line.flight->asks, {}));
    line.flight = nullptr;
  }
  if (line.flight != nullptr || line.waiting.empty()) return nullptr;
  const WaiterPtr& first = line.waiting.front().waiter;
  const memory::TupleKey& key = first->keys[line.waiting.front().entry];
  if (now.mono < line.paced_until) {
    resume_after_pause(line, key, now.mono);
    return nullptr;
  }
  auto flight = std::make_shared<Flight>();
  flight->key = key;
  flight->tuple = key.encoded();
  flight->began = now;
  size_t count = std::min(line.waiting.size(), kMostAsks);
  if (key.header().cell_class() == memory::CellClass::kBacklog) {
    // An exact call has one rate.
    const memory::Query& rate = line.waiting.front().query;
    const auto other = std::find_if(line.waiting.begin(), line.waiting.end(), [&](const Ask& ask) {
      return ask.query.limit != rate.limit || ask.query.duration != rate.duration;
    });
    count = std::min(count, static_cast<size_t>(other - line.waiting.begin()));
  }
  const auto end = line.waiting.begin() + static_cast<std::ptrdiff_t>(count);
  flight->asks.assign(std::make_move_iterator(line.waiting.begin()), std::make_move_iterator(end));
  line.waiting.erase(line.waiting.begin(), end);
  line.flight = flight;
  return flight;
}

// On the executor of a request that waits for longer than the pause: that of another may be
// destroyed before.
void Steps::resume_after_pause(Line& line, const memory::TupleKey& key, MonoTime now) {
  if (now < line.resumed_at) return;
  const auto waits = std::find_if(line.waiting.rbegin(), line.waiting.rend(), [&](const Ask& ask) {
    return ask.waiter->caller.deadline > line.paced_until;
  });
  if (waits == line.waiting.rend()) return;
  line.resumed_at = line.paced_until;
  waits->waiter->caller.home->post_at(line.paced_until, [self = shared_from_this(), key] {
    self->resume(key, self->tuples_->clock.now());
  });
}

void Steps::resume(const memory::TupleKey& key, Instant now) {
  FlightPtr flight;
  {
    Shard& shard = shard_of(key);
    const base::MutexLock lock(shard.mutex);
    const auto line = shard.lines.find(key.encoded());
    if (line == shard.lines.end()) return;
    line->second.resumed_at = {};
    flight = next_flight(line->second, now);
  }
  if (flight != nullptr) launch({flight});
}

void Steps::launch(const std::vector<FlightPtr>& flights) {
  std::vector<FlightPtr> sent;
  std::vector<FlightPtr> moved;
  std::vector<CellStep> steps;
  std::vector<FlightPtr> called;
  std::vector<ExactCall> calls;
  for (const FlightPtr& flight : flights) {
    if (is_exact(flight->key)) {
      ExactCall call = exact_call(*flight);
      if (call.asks.empty()) continue;
      if (flight->conversion.units > 0) {
        called.push_back(nullptr);
        const memory::Query query{.algorithm = call.algorithm,
                                  .duration = call.duration,
                                  .limit = call.limit,
                                  .ask = {.capacity = call.asks.front().capacity}};
        calls.push_back(charge_past(region_->component(0), flight->key, query,
                                    {.units = flight->conversion.units}, flight->conversion_call));
      }
      called.push_back(flight);
      calls.push_back(std::move(call));
      continue;
    }
    flight->epoch = region_->origin->epoch();
    CellStep step;
    if (prepare(*flight, step)) {
      sent.push_back(flight);
      steps.push_back(std::move(step));
    } else {
      moved.push_back(flight);
    }
  }
  for (const FlightPtr& flight : moved) end_without_reply(flight, StepResult::Status::kEvicted);
  if (!called.empty()) {
    counters_->add(Stat::kSteps, called.size());
    region_->origin->exact_store()->decide(std::move(calls),
                                           [self = weak_from_this(), called](auto answers) {
                                             if (const auto alive = self.lock())
                                               alive->on_answers(called, std::move(answers));
                                           });
    for (const FlightPtr& flight : called) {
      if (flight != nullptr) flight->sent.store(true, std::memory_order_relaxed);
    }
  }
  if (sent.empty()) return;
  counters_->add(Stat::kSteps, sent.size());
  // Weak: an origin that never answers must not keep this object alive.
  region_->origin->step_store()->step(std::move(steps),
                                      [self = weak_from_this(), sent](auto totals) {
                                        if (const auto alive = self.lock())
                                          alive->on_reply(sent, std::move(totals));
                                      });
  for (const FlightPtr& flight : sent) flight->sent.store(true, std::memory_order_relaxed);
}

// Describes the tuple to the origin. False: the tuple is not of the present, or the step was ended
// because this thread did not run for longer than a request waits.
bool Steps::prepare(Flight& flight, CellStep& step) {
  const base::MutexLock lock(shard_of(flight.key).mutex);
  if (flight.ended) return false;
  const epoch::Guard guard;
  const Tuple tuple = tuples_->table.find(flight.key);
  if (!tuple) {
    prepare_apart(flight, step);
    return true;
  }
  const WindowCells cells(tuple);
  const Millis duration = flight.key.header().duration();
  algorithms::Position at = algorithms::position_of(flight.began.wall, duration);
  if (cells.newest() > at.sequence) {
    at = {.sequence = cells.newest(), .offset = Millis(0), .width = duration};
  }
  if (!tuples_->is_current(tuple, at.sequence)) return false;
  const int64_t last = at.sequence - 1;
  const auto settled = memory::settled(cells.own(at.sequence), cells.tentative());
  flight.at = at;
  flight.generation = cells.generation();
  flight.own = settled ? settled->count_of(at.sequence)
                       : memory::count_in(cells.acked(at.sequence), at.sequence);
  const bool needs_regions = region_->reads_regions && freshness_of(cells).needs_regions();
  flight.only_reads = needs_regions && flight.asks.front().rounds < kMostRounds / 2;
  const Count siblings_last = memory::count_in(cells.siblings(last), last);
  const bool forgets =
      siblings_last > 0 && memory::mutated(memory::Mutation::kStepForgetsSiblingsLast);
  step = {.cell = {flight.tuple, at.sequence},
          .writer = region_->component(flight.generation),
          .own = flight.own,
          .own_last = memory::count_in(cells.own(last), last),
          .siblings = memory::count_in(cells.siblings(at.sequence), at.sequence),
          .siblings_last = forgets ? 0 : siblings_last,
          .foreign = memory::count_in(cells.foreign(at.sequence), at.sequence),
          .foreign_last = memory::count_in(cells.foreign(last), last),
          .duration = at.width,
          .expires_at = WallTime((at.sequence + 2) * duration),
          .limit_seen = region_->reads_regions ? memory::smallest_limit(tuple) : 0,
          .due = Due::kNever,
          .with_regions = needs_regions,
          .asks = {}};
  const Count wanted = add_asks(flight, step);
  flight.number = tuples_->uncertain.add(tuple, at.sequence, wanted, flight.began.mono);
  // The bridge evaluates the publish rule, even if this process ends before it does.
  const bool may_change_rule = step.own == 0 || cells.watch_seq_cst().reached_by(
                                                    cells.counted_seq_cst(at.sequence) + wanted);
  if (region_->reads_regions && wanted > 0 && may_change_rule) step.due = Due::kRule;
  return true;
}

// Returns the sum of the costs.
Count Steps::add_asks(Flight& flight, CellStep& step) {
  const algorithms::Position& at = flight.at;
  Count wanted = 0;
  for (Ask& ask : flight.asks) {
    // Decided at the time of its arrival, or at the start of the window that has begun since. If
    // its windows are over or the clock was set back: at the present.
    const int64_t ago = at.sequence - algorithms::position_of(ask.query.now, at.width).sequence;
    if (ago != 0) ask.query.now = at.start() + (ago == 1 ? Millis(0) : at.offset);
    if (flight.only_reads) continue;
    const bool sliding = ask.query.algorithm == Algorithm::kSlidingWindow;
    wanted += ask.query.ask.cost;
    step.asks.push_back(
        {.cost = ask.query.ask.cost,
         .limit = ask.query.ask.capacity,
         .rest = sliding ? std::min(at.end() - ask.query.now, at.width) : Millis(0)});
  }
  return wanted;
}

// The same without a tuple. The component is that of a tuple which was created for this step and
// evicted after it, so that a step that is sent again grants the same again.
void Steps::prepare_apart(Flight& flight, CellStep& step) {
  flight.is_apart = true;
  flight.at = algorithms::position_of(flight.began.wall, flight.key.header().duration());
  flight.generation = kApart + apart_.fetch_add(1, std::memory_order_relaxed);
  const Ask& first = flight.asks.front();
  const bool knows_regions = first.regions && first.regions_at == flight.at.sequence;
  if (knows_regions) flight.regions = *first.regions;
  flight.only_reads = region_->reads_regions && !knows_regions && first.rounds < kMostRounds / 2;
  step = {.cell = {flight.tuple, flight.at.sequence},
          .writer = region_->component(flight.generation),
          .siblings = flight.regions.own.current,
          .siblings_last = flight.regions.own.previous,
          .foreign = flight.regions.foreign.current,
          .foreign_last = flight.regions.foreign.previous,
          .duration = flight.at.width,
          .expires_at = flight.at.end() + flight.at.width,
          .with_regions = flight.only_reads,
          .asks = {}};
  const Count wanted = add_asks(flight, step);
  if (!region_->reads_regions || wanted == 0) return;
  // The bridge evaluates the publish rule: this process will not.
  for (const Ask& ask : flight.asks) {
    step.limit_seen = memory::smaller_limit(step.limit_seen, ask.query.limit);
  }
  step.due = Due::kRule;
}

void Steps::expire(const WaiterPtr& waiter) {
  if (waiter->pending.has_ended()) return;
  waiter->expired.store(true, std::memory_order_relaxed);
  Finished finished;
  for (size_t i = 0; i < waiter->keys.size(); ++i) {
    const memory::TupleKey& key = waiter->keys[i];
    bool expired = false;
    {
      Shard& shard = shard_of(key);
      const base::MutexLock lock(shard.mutex);
      const auto found = shard.lines.find(key.encoded());
      if (found == shard.lines.end()) continue;
      Line& line = found->second;
      const auto is_ours = [&](const Ask& ask) { return ask.waiter == waiter && ask.entry == i; };
      // Nearly always the first.
      const auto waits = std::find_if(line.waiting.begin(), line.waiting.end(), is_ours);
      if (waits != line.waiting.end()) {
        line.waiting.erase(waits);
        expired = true;
      } else if (line.flight != nullptr && !line.flight->ended) {
        auto& asks = line.flight->asks;
        const auto asked = std::find_if(asks.begin(), asks.end(), is_ours);
        expired = asked != asks.end();
        if (expired) asked->waiter = nullptr;
      }
    }
    if (!expired) continue;
    counters_->add(Stat::kStepErrors);
    // A request that had little time left says nothing of the origin.
    const bool had_time = waiter->caller.deadline - waiter->asked >= region_->read_deadline;
    if (had_time && !is_exact(key)) {
      const epoch::Guard guard;
      const Tuple tuple = tuples_->table.find(key);
      if (tuple) note_failed_read(WindowCells(tuple), waiter->caller.deadline);
    }
    finished.answer({.waiter = waiter, .entry = i}, {.status = StepResult::Status::kLate});
  }
}

void Steps::on_reply(const std::vector<FlightPtr>& flights,
                     Result<std::vector<StepTotals>> totals) {
  for (size_t i = 0; i < flights.size(); ++i) {
    // A reply with too few entries is no answer for the rest.
    if (totals && i < totals->size()) {
      land(flights[i], (*totals)[i]);
      continue;
    }
    {
      const epoch::Guard guard;
      if (const Tuple tuple = tuples_->table.find(flights[i]->key)) {
        note_failed_read(WindowCells(tuple), tuples_->clock.now().mono);
      }
    }
    counters_->add(Stat::kStepErrors);
    end_without_reply(flights[i], StepResult::Status::kLate);
  }
}

// The requests of a step, for whoever ends it first.
std::vector<Steps::Ask> Steps::take_asks(const FlightPtr& flight) {
  std::vector<Ask> asks;
  const base::MutexLock lock(shard_of(flight->key).mutex);
  if (end(*flight)) asks.swap(flight->asks);
  return asks;
}

// Ends a flight, under the lock of its shard. False: it has ended already.
bool Steps::end(Flight& flight) {
  if (std::exchange(flight.ended, true)) return false;
  if (flight.only_reports) reports_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void Steps::end_without_reply(const FlightPtr& flight, StepResult::Status status) {
  Finished finished;
  for (const Ask& ask : take_asks(flight)) {
    if (ask.waiter != nullptr) finished.answer(ask, {.status = status});
  }
  report_again(*flight);
  go_on(flight, {}, false, finished);
}

void Steps::land(const FlightPtr& flight, const StepTotals& totals) {
  Finished finished;
  std::vector<Ask> asks = take_asks(flight);
  const bool refused = decide(*flight, asks, totals, finished);
  go_on(flight, std::move(asks), refused, finished);
}

// Starts the next step of the line after this one. `again`: requests to ask for again. After a
// reply from within the call to the origin, the thread of a request that waits starts it: this one
// would call itself once for each step, for as long as requests come.
void Steps::go_on(const FlightPtr& flight, std::vector<Ask> again, bool refused,
                  Finished& finished) {
  const Instant now = tuples_->clock.now();
  FlightPtr next;
  {
    Shard& shard = shard_of(flight->key);
    const base::MutexLock lock(shard.mutex);
    // Their deadline may have passed meanwhile; then nothing else would end them.
    for (Ask& ask : again) {
      if (ask.waiter == nullptr || !ask.waiter->expired.load(std::memory_order_relaxed)) continue;
      finished.answer(std::exchange(ask, {}), {.status = StepResult::Status::kLate});
    }
    Line& line = shard.lines[flight->tuple];
    line.put_back(std::move(again));
    if (line.flight == flight) line.flight = nullptr;
    if (refused) {
      line.paced_until = std::max(line.paced_until, flight->began.mono + flight->pace);
      shard.paced.emplace_back(line.paced_until, flight->tuple);
    }
    next = next_flight(line, now);
    if (line.is_idle(now.mono)) shard.lines.erase(flight->tuple);
    const WaiterPtr waits = next != nullptr ? next->asks.front().waiter : nullptr;
    if (waits != nullptr && !flight->sent.load(std::memory_order_relaxed)) {
      // Under the lock: until it is released, nothing answers that request.
      waits->caller.home->post([self = shared_from_this(), next] { self->launch({next}); });
      return;
    }
  }
  if (next != nullptr) launch({next});
}

// Merges the counts of a reply. False: the tuple of the step is not in the table any more.
bool Steps::merge(const Flight& flight, const Tuple& tuple, const StepTotals& totals) const {
  if (!tuple || WindowCells(tuple).generation() != flight.generation) return false;
  if (!tuples_->is_current(tuple, flight.at.sequence)) return false;
  merger_->merge(tuple, {.began = flight.began,
                         .sequence = flight.at.sequence,
                         .own = flight.own,
                         .epoch = flight.epoch,
                         .current = &totals.current,
                         .last = &totals.last});
  tuples_->uncertain.remove(tuple, flight.number);
  return true;
}

// Charges what was granted to requests that still wait, and answers them. Those that it leaves in
// `asks` must be asked for again. Returns whether the origin refused one.
bool Steps::decide(const Flight& flight, std::vector<Ask>& asks, const StepTotals& totals,
                   Finished& finished) const {
  const auto answer_all = [&](StepResult::Status status) {
    for (Ask& ask : asks) {
      if (ask.waiter != nullptr) finished.answer(std::exchange(ask, {}), {.status = status});
    }
    return false;
  };
  if (flight.is_apart) return decide_apart(flight, asks, totals, finished);
  const epoch::Guard guard;
  const Tuple tuple = tuples_->table.find(flight.key);
  if (!merge(flight, tuple, totals)) return answer_all(StepResult::Status::kEvicted);
  if (asks.empty()) return false;
  const WindowCells cells(tuple);
  const int64_t sequence = flight.at.sequence;
  bool any_refused = false;
  for (size_t i = 0; i < asks.size(); ++i) {
    Ask& ask = asks[i];
    if (ask.waiter == nullptr) continue;
    const bool granted = !flight.only_reads && i < totals.granted.size() && totals.granted[i];
    CellDecision result = flight.only_reads || cells.newest() != sequence
                              ? CellDecision{.status = memory::DecisionStatus::kRetry}
                              : charge(tuple, ask, granted ? Effect::kConsume : Effect::kPeek);
    const bool decided =
        result.status == memory::DecisionStatus::kDecided && result.sequence == sequence;
    if (decided && !granted) count_unused_grants(tuple, flight, totals, ask.query, result);
    // Another window has begun, counts are missing, or the origin counts a grant for a request that
    // does not wait any more.
    if (!decided || (!granted && result.decision.admitted())) {
      if (++ask.rounds < kMostRounds) continue;
      finished.answer(std::exchange(ask, {}), {.status = StepResult::Status::kLate});
      continue;
    }
    memory::record_ask(tuple.cold->meta, ask.query.limit, ask.query.algorithm);
    if (!result.decision.admitted()) {
      any_refused = true;
      if (publish_watch_ != nullptr) publish_watch_->after_denial(tuple, ask.query.limit);
    }
    finished.answer(std::exchange(ask, {}),
                    {.status = StepResult::Status::kDecided, .decision = result});
  }
  if (cells.has_unacked(sequence)) region_->mark_dirty(tuple);
  return any_refused;
}

// The same without a tuple, by the counts of the reply. What the origin granted and nobody waits
// for stays charged there. If it cannot count, this process knows only what it admitted so far.
bool Steps::decide_apart(const Flight& flight, std::vector<Ask>& asks, const StepTotals& totals,
                         Finished& finished) const {
  const int64_t sequence = flight.at.sequence;
  const Component writer = region_->component(flight.generation);
  // So that the components of a cell do not grow in number with the requests. A refused step leaves
  // one, too, if it told a limit.
  const bool told_limit = region_->reads_regions && !flight.only_reads;
  if (totals.current.mine > 0 ? totals.current.siblings > 0 : told_limit) {
    region_->origin->retire({{.cell = {flight.tuple, sequence}, .writer = writer}},
                            [](const auto&) {});
  }
  RegionTotals regions = flight.regions;
  if (totals.current.regions != nullptr) {
    if (const auto handler = region_->region_counts.lock()) {
      regions = handler->totals_of(*totals.current.regions, sequence);
    }
  }
  Count used = std::max(totals.current.siblings, regions.own.current);
  if (!totals.counted && !asks.empty()) {
    used = std::max(used, tuples_->evicted_count(flight.key, asks.front().query));
  }
  const Count last =
      std::max(base::saturating_add(totals.last.siblings, totals.last.mine), regions.own.previous);
  bool any_refused = false;
  for (size_t i = 0; i < asks.size(); ++i) {
    Ask& ask = asks[i];
    const memory::Query& query = ask.query;
    const auto at = algorithms::position_of(query.now, flight.at.width);
    const algorithms::WindowCounts counts{
        .current = base::saturating_add(used, regions.foreign.current),
        .previous = base::saturating_add(last, regions.foreign.previous)};
    const bool sliding = query.algorithm == Algorithm::kSlidingWindow;
    CellDecision result{.sequence = sequence};
    result.decision = sliding ? algorithms::decide_sliding(at, counts, query.ask)
                              : algorithms::decide_fixed(at, counts, query.ask);
    result.evidence = {.siblings = used,
                       .foreign = regions.foreign.current,
                       .previous = sliding ? algorithms::carried_over(at, counts.previous) : 0};
    const bool granted = totals.counted ? i < totals.granted.size() && totals.granted[i]
                                        : result.decision.admitted();
    if (granted) used = base::saturating_add(used, query.ask.cost);
    if (ask.waiter == nullptr) continue;
    const bool must_ask_again =
        flight.only_reads || (!granted && query.ask.cost > 0 && result.decision.admitted());
    if (must_ask_again) {
      ask.regions = regions;
      ask.regions_at = sequence;
      if (++ask.rounds < kMostRounds) continue;
      finished.answer(std::exchange(ask, {}), {.status = StepResult::Status::kLate});
      continue;
    }
    if (!result.decision.admitted()) {
      any_refused = true;
    } else if (query.ask.cost > 0) {
      // While the origin is lost, this is all that the process knows of them.
      tuples_->evicted.add(tuples_->sketch_subject(flight.key), query);
    }
    finished.answer(std::exchange(ask, {}),
                    {.status = StepResult::Status::kDecided, .decision = result});
  }
  return any_refused;
}

// Of a request that the origin refused: what it granted in the last window to requests that did not
// wait counts there, and this process has not charged it.
void Steps::count_unused_grants(const Tuple& tuple, const Flight& flight, const StepTotals& totals,
                                const memory::Query& query, CellDecision& result) {
  const WindowCells cells(tuple);
  const int64_t last = flight.at.sequence - 1;
  const Count own_last = memory::count_in(cells.own(last), last);
  const Count unused = base::saturating_sub(totals.last.mine, own_last);
  if (query.algorithm != Algorithm::kSlidingWindow || unused == 0) return;
  const Evidence& known = result.evidence;
  const algorithms::WindowCounts counts{
      .current = known.own + known.siblings + known.foreign,
      .previous = own_last + memory::count_in(cells.others(last), last) + unused};
  const auto at = algorithms::position_of(query.now, query.duration);
  const auto decision = algorithms::decide_sliding(at, counts, query.ask);
  if (decision.admitted()) return;
  result.decision = decision;
  result.evidence.previous = algorithms::carried_over(at, counts.previous);
}

// Decides a request in the window of its step; the grant does not lift the limit.
CellDecision Steps::charge(const Tuple& tuple, const Ask& ask, memory::Effect effect) const {
  const WindowCells cells(tuple);
  memory::Query query = ask.query;
  query.bound = {.most = memory::kMaxCount,
                 .sequence = algorithms::position_of(query.now, query.duration).sequence,
                 .reported = false};
  CellDecision result = cells.decide(query, effect);
  result.generation = cells.generation();
  const bool admitted =
      result.status == memory::DecisionStatus::kDecided && result.decision.admitted();
  if (!admitted || effect == Effect::kPeek || publish_watch_ == nullptr) return result;
  const memory::TupleWatch watch = cells.watch_seq_cst();
  if (memory::PublishWatch::may_change_rule(watch, result.evidence, query.ask.cost, query.limit)) {
    publish_watch_->after_charge(tuple, watch, result.evidence, query.limit, query.algorithm);
  }
  return result;
}

}  // namespace weir::regional
