// Steps of tuples whose whole state the origin keeps.

#include <algorithm>
#include <optional>

#include "base/wide.h"
#include "memory/exact_use.h"
#include "memory/lifecycle.h"
#include "memory/usage_key.h"
#include "memory/window_cells.h"
#include "regional/exact_share.h"
#include "regional/foreign_use.h"
#include "regional/step_line.h"
#include "regional/steps.h"

namespace weir::regional {

using memory::CellDecision;
using memory::ExactUse;
using memory::Tuple;
using telemetry::Stat;

namespace {

// Tuples in one call to the origin: more would keep it busy for too long.
constexpr size_t kReportsTogether = 256;

}  // namespace

// A repeated call is the same call: it keeps its number and its asks. Without asks: the reply came
// after all.
ExactCall Steps::exact_call(Flight& flight) {
  const base::MutexLock lock(shard_of(flight.key).mutex);
  if (flight.ended || flight.asks.empty()) return {};
  if (flight.call == 0) {
    flight.conversion_call = 1 + exact_calls_.fetch_add(2, std::memory_order_relaxed);
    flight.call = flight.conversion_call + 1;
    flight.first_sent = flight.began.mono;
    const epoch::Guard guard;
    const Tuple tuple = tuples_->table.find(flight.key);
    // Until a call is answered: an answer that is lost loses nothing.
    flight.converts = !tuple || memory::is_open(tuple);
    if (flight.converts) {
      flight.conversion = conversion_to(*tuples_, *region_, flight.key, flight.asks.front().query,
                                        tuples_->clock.now(), Purpose::kTell);
    }
    if (tuple) {
      const ExactUse use(tuple);
      // Before the total is read: a later admission marks the tuple dirty again.
      use.mark_clean();
      flight.has_tuple = true;
      flight.generation = use.generation();
      flight.own = use.own();
      const memory::Query& query = flight.asks.front().query;
      flight.capacity = std::max(query.ask.capacity, use.known().capacity);
      // What has left or drained since is not told. What the process may admit by its allowance is
      // told in full: together with that of others it may still count.
      const uint64_t parts = kAllowanceParts * std::max<uint64_t>(region_->origin->live_nodes(), 1);
      const Count most = std::max(memory::used_in(tuple, tuples_->clock.now().wall),
                                  base::ceil_div(flight.capacity, parts));
      flight.acked = std::max(use.known().acked, base::saturating_sub(flight.own, most));
      use.take_foreign();
      // Without an answer so far, a call that only tells does not know how much may be charged.
      const bool knows_most = !flight.only_reports || use.known().capacity > 0;
      if (region_->reads_regions && knows_most &&
          !base::mutated(base::Mutation::kForeignNotCharged)) {
        flight.foreign =
            foreign_use(flight.key, flight.asks.front().query, tuples_->clock.now().wall);
      }
    }
  }
  const memory::Query& first = flight.asks.front().query;
  ExactCall call{.tuple = flight.tuple,
                 .algorithm = first.algorithm,
                 .limit = first.limit,
                 .duration = first.duration,
                 .across_durations = flight.key.header().duration() == Millis(0),
                 .writer = region_->component(flight.generation),
                 .number = flight.call,
                 .own = flight.own,
                 .acked = flight.acked,
                 .capacity = std::max(flight.capacity, first.ask.capacity),
                 .strict_for = strict_for(first),
                 .foreign_sequence = flight.foreign.sequence,
                 .foreign = flight.foreign.current,
                 .foreign_last = flight.foreign.last,
                 .foreign_width = flight.foreign.width,
                 .foreign_at_first = flight.foreign.at_first,
                 .foreign_most = flight.foreign.most,
                 .asks = {}};
  for (const Ask& ask : flight.asks) {
    call.asks.push_back({.cost = ask.query.ask.cost, .capacity = ask.query.ask.capacity});
  }
  return call;
}

void Steps::on_answers(const std::vector<FlightPtr>& flights,
                       Result<std::vector<ExactAnswer>> answers) {
  const Instant now = tuples_->clock.now();
  std::vector<FlightPtr> again;
  for (size_t i = 0; i < flights.size(); ++i) {
    const FlightPtr& flight = flights[i];
    if (flight == nullptr) continue;  // of a conversion
    if (answers && i < answers->size() && land_exact(flight, (*answers)[i])) continue;
    counters_->add(Stat::kStepErrors);
    if (!answers && may_repeat(flight, now)) {
      again.push_back(flight);
    } else {
      end_without_reply(flight, StepResult::Status::kLate);
    }
  }
  if (!again.empty()) launch(again);
}

// Whether to send an exact call again that failed. The answer may have been lost with a connection.
bool Steps::may_repeat(const FlightPtr& flight, Instant now) {
  if (region_->origin->reach() != Reach::kPrompt) return false;
  const base::MutexLock lock(shard_of(flight->key).mutex);
  if (!flight->may_repeat()) return false;
  ++flight->repeats;
  flight->began = now;
  return true;
}

// Answers the requests of an exact call. False: the origin could not decide it.
bool Steps::land_exact(const FlightPtr& flight, const ExactAnswer& answer) {
  if (answer.decisions.empty()) return false;
  Finished finished;
  const std::vector<Ask> asks = take_asks(flight);
  note_answer(*flight, asks, answer);
  // A peek without a tuple takes nothing over.
  const bool consumes =
      std::any_of(asks.begin(), asks.end(), [](const Ask& ask) { return ask.query.ask.cost > 0; });
  if (flight->converts && (flight->has_tuple || consumes)) {
    end_conversion(*tuples_, flight->key, flight->conversion.from);
  }
  const WallTime now = tuples_->clock.now().wall;
  bool refused = false;
  for (size_t i = 0; i < asks.size(); ++i) {
    if (asks[i].waiter == nullptr) continue;
    if (i >= answer.decisions.size()) {
      finished.answer(asks[i], {.status = StepResult::Status::kLate});
      continue;
    }
    const memory::Query& query = asks[i].query;
    const ExactDecision& decided = answer.decisions[i];
    CellDecision result;
    result.decision.outcome = decided.outcome;
    result.decision.remaining = decided.remaining;
    result.decision.reset = now + decided.reset;
    if (decided.retry_after) result.decision.retry_at = query.now + *decided.retry_after;
    const Count after = base::saturating_sub(query.ask.capacity, decided.remaining);
    const bool admitted = result.decision.admitted();
    // The origin does not tell apart whose they are.
    result.evidence.siblings = admitted ? base::saturating_sub(after, query.ask.cost) : after;
    refused = refused || decided.outcome == Outcome::kDenied;
    // Sooner than usual if something will fit by then.
    if (decided.retry_after) {
      flight->pace = std::min<Nanos>(flight->pace, std::min(*decided.retry_after, kLongestWait));
    }
    finished.answer(asks[i], {.status = StepResult::Status::kDecided, .decision = result});
  }
  go_on(flight, {}, refused, finished);
  return true;
}

// Keeps what the answer says for the next requests. `asks`: none if the call had ended.
void Steps::note_answer(const Flight& flight, const std::vector<Ask>& asks,
                        const ExactAnswer& answer) const {
  if (!flight.has_tuple || asks.empty() || answer.decisions.size() != asks.size()) return;
  const epoch::Guard guard;
  const Tuple tuple = tuples_->table.find(flight.key);
  const memory::Query& last = asks.back().query;
  // The tuple was removed meanwhile.
  if (!tuple) return;
  if (ExactUse(tuple).generation() != flight.generation &&
      !base::mutated(base::Mutation::kAnswerOfAnotherGeneration)) {
    return;
  }
  const ExactUse use(tuple);
  // It has another rate, or a part of it.
  if (!memory::fits(tuple, last)) return use.note_told(flight.own);
  const Count used = base::saturating_sub(last.ask.capacity, answer.decisions.back().remaining);
  if (answer.strict && !use.known().strict) counters_->add(Stat::kMadeStrict);
  use.note_answer({.own = flight.own,
                   .used = used,
                   .capacity = last.ask.capacity,
                   .strict = answer.strict,
                   .fresh_until = flight.first_sent + exact_freshness(last, region_->max_freshness,
                                                                      region_->replay_within)});
  std::optional<ExactUse::Denial> denial;
  for (size_t i = 0; i < asks.size(); ++i) {
    const ExactDecision& decided = answer.decisions[i];
    const algorithms::Ask& ask = asks[i].query.ask;
    if (!decided.retry_after || ask.cost == 0 || ask.capacity != last.ask.capacity) continue;
    if (*decided.retry_after > kLongestWait || (denial && denial->cost <= ask.cost)) continue;
    denial = {.until = flight.first_sent + *decided.retry_after,
              .cost = ask.cost,
              .remaining = decided.remaining};
  }
  if (denial) use.note_denial(*denial);
}

// A call ended without an answer: the origin may not know what it told.
void Steps::report_again(const Flight& flight) const {
  if (!flight.has_tuple) return;
  const epoch::Guard guard;
  const Tuple tuple = tuples_->table.find(flight.key);
  if (!tuple) return;
  if (flight.foreign.current + flight.foreign.last > 0) ExactUse(tuple).mark_foreign();
  if (memory::has_unreported(tuple)) region_->mark_unreported(tuple);
}

// The caller holds an epoch guard.
ForeignUse Steps::foreign_use(const memory::TupleKey& key, const memory::Query& query,
                              WallTime now) const {
  const auto usage = memory::usage_key(key, horizon_of(query), tuples_->hash);
  const Tuple tuple = usage ? tuples_->table.find(*usage) : Tuple{};
  if (!tuple) return {};
  return regional::foreign_use(query, now, tuple,
                               region_->other_regions.load(std::memory_order_relaxed));
}

std::vector<uint32_t> Steps::report(Instant now, const std::vector<uint32_t>& tuples,
                                    Executor& timers) {
  std::vector<uint32_t> busy;
  std::vector<FlightPtr> flights;
  for (const uint32_t index : tuples) {
    auto flight = std::make_shared<Flight>();
    memory::Query peek{.now = now.wall};
    {
      const epoch::Guard guard;
      const Tuple tuple = tuples_->table.at(index);
      if (!tuple || tuple.slot->header.cell_class() == memory::CellClass::kWindow) continue;
      if (!memory::has_unreported(tuple)) ExactUse(tuple).mark_clean();
      if (!memory::has_unreported(tuple)) continue;
      flight->key = memory::TupleKey(tuple.slot->header, tuple.slot->key_words(), tuples_->hash);
      peek = memory::peek_of(tuple, now.wall);
    }
    Shard& shard = shard_of(flight->key);
    const base::MutexLock lock(shard.mutex);
    Line& line = shard.lines[flight->key.encoded()];
    // A call without an answer that nobody waits for any more.
    const bool abandoned = line.flight != nullptr &&
                           now.mono - line.flight->began.mono >= region_->read_deadline &&
                           !line.flight->may_repeat();
    if (abandoned) {
      (void)end(*line.flight);
      line.put_back(std::exchange(line.flight->asks, {}));
      line.flight = nullptr;
    }
    if (line.flight != nullptr) {
      busy.push_back(index);
      continue;
    }
    flight->tuple = flight->key.encoded();
    flight->began = now;
    flight->only_reports = true;
    flight->asks.push_back({.waiter = nullptr, .query = peek});
    line.flight = flight;
    reports_.fetch_add(1, std::memory_order_relaxed);
    flights.push_back(std::move(flight));
  }
  if (flights.empty()) return busy;
  timers.post_at(now.mono + region_->read_deadline, [weak = weak_from_this(), flights] {
    const auto self = weak.lock();
    if (!self) return;
    for (const FlightPtr& flight : flights) {
      bool ended = false;
      {
        const base::MutexLock lock(self->shard_of(flight->key).mutex);
        ended = flight->ended;
      }
      if (!ended) self->end_without_reply(flight, StepResult::Status::kLate);
    }
  });
  counters_->add(Stat::kReplayed, flights.size());
  for (size_t begin = 0; begin < flights.size(); begin += kReportsTogether) {
    const auto first = flights.begin() + static_cast<std::ptrdiff_t>(begin);
    const size_t count = std::min(kReportsTogether, flights.size() - begin);
    launch({first, first + static_cast<std::ptrdiff_t>(count)});
  }
  return busy;
}

}  // namespace weir::regional
