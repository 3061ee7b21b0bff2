// The path of a request whose duration was changed: its count is another one, and first takes over
// what still counts by the past durations.
//
// The count is raised to the largest of those, as if the difference had been admitted now. That is
// a maximum, so it may be repeated, and it is right when a duration is changed back: the count of
// the second duration began with that of the first. A mark ends it, once for each change and tuple.
// Two seconds after the change it is done again, for what other processes have admitted before they
// knew of the change.
//
// With an origin, the counts there decide. A window is raised by kConverted
// (regional/conversion.h). A state that the origin keeps whole is charged as for other regions, by
// the number of the change: whatever several processes tell, the largest amount is charged once.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/windows.h"
#include "base/countdown.h"
#include "decide/engine.h"
#include "decide/validate.h"
#include "memory/conversion.h"
#include "memory/exact_use.h"
#include "memory/lifecycle.h"
#include "memory/tuple_meta.h"
#include "memory/window_cells.h"
#include "regional/conversion.h"
#include "regional/exact_share.h"
#include "regional/query_share.h"

namespace weir::decide {

using memory::CellClass;
using memory::CellDecision;
using memory::DecisionStatus;
using memory::Effect;
using memory::Tuple;
using memory::TupleKey;
using memory::WindowCells;
using telemetry::Stat;

namespace {

// Every process knows a change by then.
constexpr Millis kKnownEverywhere{2000};
// By so much the clocks of processes may differ.
constexpr Millis kClockDifference{10'000};

// What was counted before the change has left every window of the request by then.
WallTime takes_over_until(const PastDurations& past, const memory::Query& query) {
  const Millis counts_for = std::max(query.duration, regional::horizon_of(query));
  return past.changed + kKnownEverywhere + kClockDifference +
         2 * std::min(counts_for, kMaxDuration);
}

// Grows with each change, by two or more.
int64_t number_of(const PastDurations& past, const memory::Query& query, WallTime now) {
  // A window so short that all has left it is not raised again.
  const bool again = query.duration > kKnownEverywhere && now >= past.changed + kKnownEverywhere;
  return past.changed.time_since_epoch().count() * 4 + (again ? 2 : 0);
}

// What a mark names: the change, and the capacity, to which the usage was cut.
uint64_t mark_number(int64_t number, Count capacity) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  return static_cast<uint64_t>(number) * kOdd + capacity;
}

TupleKey key_with(const TupleKey& key, Millis duration, CellClass cell_class,
                  const base::KeyedHash& hash) {
  constexpr uint64_t kLengths = (uint64_t{1} << 30) - 1;
  const memory::KeyHeader header{.word = (key.header().word & kLengths) |
                                         static_cast<uint64_t>(cell_class) << 30 |
                                         static_cast<uint64_t>(duration.count()) << 32};
  return {header, key.words(), hash};
}

Algorithm algorithm_of(CellClass cell_class) {
  switch (cell_class) {
    case CellClass::kBacklog: return Algorithm::kGcra;
    case CellClass::kRing: return Algorithm::kSlidingWindowStrict;
    case CellClass::kLog: return Algorithm::kSlidingLog;
    case CellClass::kWindow: break;
  }
  return Algorithm::kSlidingWindow;
}

// A request as it was with a past duration and another class.
RequestContext past_context(const RequestContext& context, const TupleKey& key) {
  RequestContext past = context;
  past.key = key;
  past.query.algorithm = algorithm_of(key.header().cell_class());
  past.query.duration = key.header().duration();
  past.query.ask.cost = 1;
  return past;
}

Request without_past(const Request& request) {
  Request plain = request;
  plain.past = nullptr;
  return plain;
}

// Calls visit(duration) for each past duration other than that of the request.
template <typename Visit>
void for_each_past(const PastDurations& past, Millis present, const Visit& visit) {
  for (size_t i = 0; i < past.count; ++i) {
    if (past.durations[i] != present) visit(past.durations[i]);
  }
}

// A request with names of its own.
struct OwnedRequest {
  explicit OwnedRequest(const Request& from)
      : workspace(from.workspace), ns(from.ns), identifier(from.identifier), plain(from) {
    plain.past = nullptr;
  }
  [[nodiscard]] Request request() const {
    Request result = plain;
    result.workspace = workspace;
    result.ns = ns;
    result.identifier = identifier;
    return result;
  }
  std::string workspace;
  std::string ns;
  std::string identifier;
  Request plain;
};

// Calls `done` on the caller's executor with an answer, or with none at the deadline. Then it calls
// `late` with an answer that comes after all, on the thread that delivers it.
template <typename Value>
std::function<void(Result<Value>)> answer_to(
    const regional::Caller& caller, UniqueFunction<void(const Value*)> done,
    UniqueFunction<void(const Value&)> late = [](const Value&) {}) {
  struct Waiter {
    base::Atomic<bool> ended{false};
    UniqueFunction<void(const Value*)> done;
    UniqueFunction<void(const Value&)> late;
  };
  const auto waiter = std::make_shared<Waiter>();
  waiter->done = std::move(done);
  waiter->late = std::move(late);
  caller.home->post_at(caller.deadline, [waiter] {
    if (!waiter->ended.exchange(true)) waiter->done(nullptr);
  });
  return [waiter, home = caller.home](Result<Value> answer) {
    if (waiter->ended.exchange(true)) {
      if (answer) waiter->late(answer.value());
      return;
    }
    home->post(
        [waiter, answer = std::move(answer)] { waiter->done(answer ? &answer.value() : nullptr); });
  };
}

}  // namespace

// A peek that takes nothing over reports what the first request would find.
void Engine::report_taken(const Request& request, Instant now, Taken taken, Verdict& verdict) {
  if (!taken.complete && verdict.basis != Basis::kDegraded) {
    verdict.basis = Basis::kDegraded;
    state_.counters->add(Stat::kDegraded);
  }
  if (request.cost > 0) return;
  const memory::Query query = memory::query_of(now.wall, request);
  const Count left = base::saturating_sub(query.ask.capacity, taken.units);
  if (left >= verdict.remaining) return;
  verdict.remaining = left;
  if (memory::class_of(request.algorithm) == CellClass::kWindow) return;
  verdict.reset = std::max(verdict.reset, Decider::decide_after(query, taken.units).decision.reset);
}

// One request that waits for the origin, to learn what to take over.
struct Engine::Takeover {
  RequestContext context;
  PastDurations past;
  int64_t number = 0;
  bool asks = false;  // the origin keeps the state of the request
  regional::Caller caller;
  UniqueFunction<void(Taken)> done;
  Sources sources;
  Units units;
};

bool Engine::must_take_over(Instant now, const Request& request) const {
  if (request.across_durations) return false;
  if (validate(request) != nullptr) return true;  // where the error is returned
  const memory::Query query = memory::query_of(now.wall, request);
  if (now.wall >= takes_over_until(*request.past, query)) return false;
  bool differs = false;
  for_each_past(*request.past, request.duration, [&](Millis) { differs = true; });
  if (!differs) return false;
  const TupleKey key(request, state_.tuples->hash);
  const int64_t number = number_of(*request.past, query, now.wall);
  return !takeover_marks_.contains(key, mark_number(number, query.ask.capacity));
}

// What counts now in a tuple, as far as this process knows. `algorithm`: of a window, how the last
// one counts.
Engine::Units Engine::units_of(const TupleKey& key, Algorithm algorithm, Instant now) const {
  const memory::TupleStore& tuples = *state_.tuples;
  const epoch::Guard guard;
  const Tuple tuple = tuples.table.find(key);
  if (key.header().cell_class() != CellClass::kWindow) {
    if (!tuple) return {};
    const Count units = memory::units_now(tuple, now);
    if (!counts_for_regions()) return {.all = units, .region = units};
    return {.all = units,
            .region = regional::units_of_region(tuples, *state_.region, key, tuple, now, units)};
  }
  const auto at = algorithms::position_of(now.wall, key.header().duration());
  algorithms::WindowCounts region;
  algorithms::WindowCounts foreign;
  if (tuple && tuples.is_current(tuple, at.sequence)) {
    const WindowCells cells(tuple);
    const Count tentative = memory::tentative_amount(cells.tentative());
    const auto own = [&](int64_t sequence) {
      return memory::count_in(cells.own(sequence), sequence) +
             memory::count_in(cells.siblings(sequence), sequence);
    };
    region = {.current = base::saturating_sub(own(at.sequence), tentative),
              .previous = own(at.sequence - 1)};
    foreign = {.current = memory::count_in(cells.foreign(at.sequence), at.sequence),
               .previous = memory::count_in(cells.foreign(at.sequence - 1), at.sequence - 1)};
  } else if (state_.global) {
    const global::LedgerTotals totals = state_.global->totals(key, at.sequence);
    region = {.current = totals.current.own_region, .previous = totals.last.own_region};
    foreign = {.current = totals.current.foreign, .previous = totals.last.foreign};
  }
  if (algorithm == Algorithm::kFixedWindow) region.previous = foreign.previous = 0;
  const Count here = algorithms::sliding_estimate(at, region);
  return {.all = here + algorithms::sliding_estimate(at, foreign), .region = here};
}

// The largest of what counts by the past durations, at most the capacity of the request.
Engine::Units Engine::known_past(const RequestContext& context, const PastDurations& past) const {
  Units largest;
  for_each_past(past, context.query.duration, [&](Millis duration) {
    for (const CellClass each : memory::kAllClasses) {
      const TupleKey key = key_with(context.key, duration, each, state_.tuples->hash);
      Units units = units_of(key, context.query.algorithm, context.now);
      if (shares_as_region(algorithm_of(each), context.consistency) && !is_in_table(key)) {
        units.all = foreign_units(past_context(context, key));
      }
      largest.all = std::max(largest.all, units.all);
      largest.region = std::max(largest.region, units.region);
    }
  });
  largest.all = std::min(largest.all, context.query.ask.capacity);
  largest.region = std::min(largest.region, context.query.ask.capacity);
  return largest;
}

// Raises the count of the request in this process. Of a window that an origin shares, the
// difference counts as that of siblings. False: the table has no space for the tuple.
bool Engine::raise_to(const RequestContext& context, Count units) {
  const bool is_window = context.cell_class() == CellClass::kWindow;
  const base::MutexLock lock(takeover_mutex_);
  const auto raise = [&](const Tuple& tuple) {
    const Units now_here = units_of(context.key, context.query.algorithm, context.now);
    const bool again = memory::mutated(memory::Mutation::kTakenOverAgain);
    const Count here = is_window ? now_here.region : now_here.all;
    const Count more = base::saturating_sub(units, again ? 0 : here);
    if (more == 0) return CellDecision{};
    if (is_window && state_.tuples->has_origin()) {
      const WindowCells cells(tuple);
      if (!cells.fits(context.query)) return CellDecision{.status = DecisionStatus::kRebuild};
      const auto at = algorithms::position_of(context.query.now, context.query.duration);
      const Count known = memory::count_in(cells.siblings(at.sequence), at.sequence);
      (void)cells.raise_siblings(at.sequence, known + more);
      return CellDecision{};
    }
    memory::Query charge = context.query;
    charge.bound = {};
    charge.ask.cost = more;
    if (is_window) charge.ask.capacity = memory::kMaxCount;
    const CellDecision result = Decider::decide_cells(tuple, charge, Effect::kConsume);
    if (result.status == DecisionStatus::kDecided && result.decision.admitted()) {
      decider_.mark_charged(tuple, charge, result);
    }
    return result;
  };
  // Other requests may be admitted meanwhile, so that the difference does not fit any more.
  constexpr int kMaxAttempts = 3;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const auto result = decider_.with_tuple(context, raise);
    if (!result) return false;
    if (result->decision.admitted()) return true;
  }
  return true;
}

// By what this process knows. Returns what was taken over.
Count Engine::take_over_known(Instant now, const Request& request) {
  RequestContext context(now, request, state_.tuples->hash);
  // What the other regions have admitted by the past durations counts, too.
  for_each_past(*request.past, context.query.duration, [&](Millis duration) {
    for (const CellClass each : memory::kAllClasses) {
      const TupleKey key = key_with(context.key, duration, each, state_.tuples->hash);
      if (!shares_as_region(algorithm_of(each), context.consistency) || !is_in_table(key)) continue;
      RequestContext past = past_context(context, key);
      charge_foreign(past);
    }
  });
  const Units units = known_past(context, *request.past);
  const Count taken = context.cell_class() == CellClass::kWindow ? units.region : units.all;
  if (request.cost == 0) return units.all;
  // With an origin, the first request that can wait for it does the rest.
  const bool ends = (taken == 0 || raise_to(context, taken)) && !state_.tuples->has_origin();
  if (ends) {
    const int64_t number = number_of(*request.past, context.query, now.wall);
    takeover_marks_.add(context.key, mark_number(number, context.query.ask.capacity));
  }
  return units.all;
}

bool Engine::forget_past(Instant now, const Request& request) {
  if (request.past == nullptr || request.across_durations) return false;
  const RequestContext context(now, request, state_.tuples->hash);
  bool forgot = false;
  for_each_past(*request.past, request.duration, [&](Millis duration) {
    for (const CellClass each : memory::kAllClasses) {
      const TupleKey key = key_with(context.key, duration, each, state_.tuples->hash);
      const auto erased = state_.tuples->table.erase(key, now.wall);
      forgot = forgot || erased == memory::EraseResult::kErased;
    }
  });
  return forgot;
}

Result<Verdict> Engine::check_after_change(Instant now, const Request& request) {
  if (auto error = validate(request)) return std::move(*error);
  const Request plain = without_past(request);
  if (!must_take_over(now, request)) return check(now, plain);
  const Count units = take_over_known(now, request);
  Result<Verdict> result = check(now, plain);
  if (result) report_taken(request, now, {.units = units}, *result);
  return result;
}

bool Engine::check_async_after_change(Instant now, const Request& request,
                                      const regional::Caller& caller, VerdictHandler done) {
  if (auto error = validate(request)) {
    done(std::move(*error));
    return true;
  }
  if (!must_take_over(now, request)) {
    return check_async(now, without_past(request), caller, std::move(done));
  }
  struct Call {
    Call(const Request& request, VerdictHandler handler)
        : owned(request), done(std::move(handler)) {}
    OwnedRequest owned;
    VerdictHandler done;
    bool decided = false;  // before the return
  };
  const auto call = std::make_shared<Call>(request, std::move(done));
  const bool at_once =
      take_over(now, request, caller, [self = shared_from_this(), call, caller](Taken taken) {
        const Request plain = call->owned.request();
        const Instant then = self->state_.tuples->clock.now();
        call->decided = self->check_async(
            then, plain, caller, [self, call, taken, then](Result<Verdict> verdict) {
              if (verdict) self->report_taken(call->owned.plain, then, taken, *verdict);
              call->done(std::move(verdict));
            });
      });
  return at_once && call->decided;
}

Result<BatchVerdict> Engine::check_all_after_change(Instant now,
                                                    std::span<const Request> requests) {
  if (const auto contexts = contexts_of(now, requests); !contexts) return contexts.error();
  std::vector<Request> plain;
  std::vector<Count> units(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    plain.push_back(without_past(requests[i]));
    const bool takes = requests[i].past != nullptr && must_take_over(now, requests[i]);
    if (takes) units[i] = take_over_known(now, requests[i]);
  }
  Result<BatchVerdict> result = check_all(now, plain);
  for (size_t i = 0; result && i < plain.size(); ++i) {
    report_taken(plain[i], now, {.units = units[i]}, result->items[i]);
  }
  return result;
}

bool Engine::check_all_async_after_change(Instant now, std::span<const Request> requests,
                                          const regional::Caller& caller, BatchHandler done) {
  if (const auto contexts = contexts_of(now, requests); !contexts) {
    done(contexts.error());
    return true;
  }
  struct Call {
    std::vector<OwnedRequest> owned;
    std::vector<Taken> taken;
    BatchHandler done;
    base::Countdown parts;
  };
  const auto call = std::make_shared<Call>();
  call->done = std::move(done);
  call->taken.resize(requests.size());
  std::vector<size_t> takes;
  for (size_t i = 0; i < requests.size(); ++i) {
    call->owned.emplace_back(requests[i]);
    if (requests[i].past != nullptr && must_take_over(now, requests[i])) takes.push_back(i);
  }
  call->parts.set(1 + takes.size());
  const auto end_part = [self = shared_from_this(), call, caller] {
    if (!call->parts.end_part()) return false;
    std::vector<Request> plain;
    for (const OwnedRequest& each : call->owned) plain.push_back(each.request());
    const Instant then = self->state_.tuples->clock.now();
    return self->check_all_async(
        then, plain, caller, [self, call, then](Result<BatchVerdict> result) {
          for (size_t i = 0; result && i < call->owned.size(); ++i) {
            self->report_taken(call->owned[i].plain, then, call->taken[i], result->items[i]);
          }
          call->done(std::move(result));
        });
  };
  for (const size_t i : takes) {
    (void)take_over(now, requests[i], caller, [call, i, end_part](Taken taken) {
      call->taken[i] = taken;
      (void)end_part();
    });
  }
  return end_part();
}

bool Engine::take_over(Instant now, const Request& request, const regional::Caller& caller,
                       UniqueFunction<void(Taken)> done) {
  const regional::RegionState& region = *state_.region;
  if (!region.origin || region.origin->reach() != Reach::kPrompt) {
    done({.units = take_over_known(now, request)});
    return true;
  }
  const auto call = std::make_shared<Takeover>();
  call->context = RequestContext(now, request, state_.tuples->hash);
  call->past = *request.past;
  call->number = number_of(call->past, call->context.query, now.wall);
  call->caller = caller;
  call->done = std::move(done);
  const memory::Query& query = call->context.query;
  const bool is_window = call->context.cell_class() == CellClass::kWindow;
  call->asks =
      is_decided_exactly(query.algorithm, request.consistency, Waiting::kPossible) &&
      regional::drains_in_time(query.algorithm, query.limit, query.duration, query.ask.capacity);
  // Creates the tuple.
  if (request.cost > 0) (void)read_requirement(call->context, Waiting::kPossible);
  call->context.query.bound = {};
  const SourcesPtr sources(call, &call->sources);
  for_each_past(call->past, query.duration, [&](Millis duration) {
    for (const CellClass each : memory::kAllClasses) {
      const TupleKey key = key_with(call->context.key, duration, each, state_.tuples->hash);
      if (each == CellClass::kWindow) {
        sources->windows.push_back({.key = key});
        continue;
      }
      if (!has_exact_store_) continue;
      const epoch::Guard guard;
      const Tuple tuple = state_.tuples->table.find(key);
      // Of other classes the origin is asked only about what this process has counted.
      if (!tuple && each != call->context.cell_class()) continue;
      const Count most =
          std::min(query.ask.capacity,
                   each == CellClass::kLog ? kMaxLogLimit : algorithms::kAlwaysRepresentable);
      sources->kept.push_back({.key = key,
                               .peek = tuple
                                           ? memory::peek_of(tuple, now.wall)
                                           : memory::Query{.now = now.wall,
                                                           .algorithm = algorithm_of(each),
                                                           .duration = duration,
                                                           .limit = most,
                                                           .ask = {.capacity = most, .cost = 0}}});
    }
  });
  if (call->asks && !is_window) {
    sources->kept.push_back({.key = call->context.key, .peek = query});
    sources->kept.back().peek.ask.cost = 0;
  }
  renew(now, sources, caller, [self = shared_from_this(), call] { self->on_reads_done(call); });
  return false;
}

// The origin has answered, or not in time.
void Engine::on_reads_done(const TakeoverPtr& call) {
  RequestContext& context = call->context;
  context.set_time(state_.tuples->clock.now());
  // What this process knows, after the reads.
  call->units = known_past(context, call->past);
  Units& units = call->units;
  bool answered = true;
  for (const Sources::Window& window : call->sources.windows) {
    const regional::ReadResult& read = window.read;
    answered = answered && read.answered;
    if (!read.answered || read.merged) continue;
    const auto at = algorithms::position_of(context.now.wall, window.key.header().duration());
    algorithms::WindowCounts region = read.counts;
    algorithms::WindowCounts foreign;
    if (state_.global && read.regions != nullptr) {
      const auto totals =
          global::totals_of(*read.regions, state_.global->shared.region(), at.sequence);
      foreign = {.current = totals.current.foreign, .previous = totals.last.foreign};
    }
    const bool fixed = context.query.algorithm == Algorithm::kFixedWindow;
    if (fixed) region.previous = foreign.previous = 0;
    const Count here = algorithms::sliding_estimate(at, region);
    units.region = std::max(units.region, here);
    units.all = std::max(units.all, here + algorithms::sliding_estimate(at, foreign));
  }
  for (const Sources::Kept& kept : call->sources.kept) {
    const regional::StepResult& answer = kept.answer;
    const bool decided = answer.status == regional::StepResult::Status::kDecided;
    answered = answered && decided;
    if (!decided || kept.key == context.key) continue;
    const Count used =
        base::saturating_sub(kept.peek.ask.capacity, answer.decision.decision.remaining);
    units.all = std::max(units.all, used);
    // Other regions know what they have admitted.
    if (!state_.region->reads_regions) units.region = std::max(units.region, used);
  }
  units.all = std::min(units.all, context.query.ask.capacity);
  units.region = std::min(units.region, context.query.ask.capacity);
  if (context.query.ask.cost == 0) return call->done({.units = units.all, .complete = answered});
  if (!answered) {
    (void)raise_to(context, context.cell_class() == CellClass::kWindow ? units.region : units.all);
    return end_takeover(*call, false);
  }
  if (context.cell_class() == CellClass::kWindow) return raise_window(call);
  if (call->asks) return raise_exact(call);
  (void)raise_to(context, units.all);
  end_takeover(*call, true);
}

// Reads the counts at the origin, and raises kConverted by what they lack.
void Engine::raise_window(const TakeoverPtr& call) {
  const RequestContext& context = call->context;
  StepStore* const steps = state_.region->origin->step_store();
  if (call->units.region == 0 || steps == nullptr) {
    if (call->units.region > 0) (void)raise_to(context, call->units.region);
    return end_takeover(*call, true);
  }
  const auto at = algorithms::position_of(context.query.now, context.query.duration);
  const CellStep step = regional::converted_step(*state_.region, context.key, context.query, 0);
  using Totals = std::vector<StepTotals>;
  // What the origin lacks; none: nothing.
  const auto raise_by = [call, step, at](const Totals& read) -> std::optional<CellStep> {
    const StepTotals& totals = read.front();
    const bool fixed = call->context.query.algorithm == Algorithm::kFixedWindow;
    const Count there = algorithms::sliding_estimate(
        at, {.current = totals.current.mine + totals.current.siblings,
             .previous = fixed ? 0 : totals.last.mine + totals.last.siblings});
    if (there >= call->units.region) return std::nullopt;
    CellStep raise = step;
    raise.own = totals.current.mine + call->units.region - there;
    return raise;
  };
  const auto on_told = [self = shared_from_this(), call](const Totals* told) {
    self->end_takeover(*call, told != nullptr);
  };
  const auto on_told_late = [self = shared_from_this(), call](const Totals&) {
    self->mark_taken_over(*call);
  };
  const auto on_read = [self = shared_from_this(), call, steps, raise_by, on_told,
                        on_told_late](const Totals* read) {
    (void)self->raise_to(call->context, call->units.region);
    if (read == nullptr || read->size() != 1) return self->end_takeover(*call, false);
    const std::optional<CellStep> raise = raise_by(*read);
    if (!raise) return self->end_takeover(*call, true);
    steps->step({*raise}, answer_to<Totals>(call->caller, on_told, on_told_late));
  };
  // The next requests need not begin again.
  const auto on_read_late = [self = shared_from_this(), call, steps, raise_by,
                             on_told_late](const Totals& read) {
    if (read.size() != 1) return;
    const std::optional<CellStep> raise = raise_by(read);
    if (!raise) return self->mark_taken_over(*call);
    steps->step({*raise}, [on_told_late](const Result<Totals>& told) {
      if (told) on_told_late(told.value());
    });
  };
  steps->step({step}, answer_to<Totals>(call->caller, on_read, on_read_late));
}

void Engine::raise_exact(const TakeoverPtr& call) {
  const RequestContext& context = call->context;
  const Count capacity = context.query.ask.capacity;
  const Count there =
      base::saturating_sub(capacity, call->sources.kept.back().answer.decision.decision.remaining);
  (void)raise_to(context, call->units.all);
  if (there >= call->units.all) return end_takeover(*call, true);
  // A generation that no tuple has.
  constexpr uint64_t kNoTuple = uint64_t{1} << 52;
  const ExactCall charge =
      regional::charge_past(state_.region->component(kNoTuple), context.key, context.query,
                            {.changed = regional::Past::Changed::kDuration,
                             .number = call->number,
                             .units = call->units.all - there},
                            1 + takeover_calls_.fetch_add(1, std::memory_order_relaxed));
  const auto on_charged = [self = shared_from_this(),
                           call](const std::vector<ExactAnswer>* answers) {
    if (answers == nullptr) return self->end_takeover(*call, false);
    // The process learns of the new count before it admits by itself again.
    memory::Query peek = call->context.query;
    peek.ask.cost = 0;
    self->steps_->ask(self->state_.tuples->clock.now(),
                      {{.key = &call->context.key, .query = &peek}}, call->caller,
                      [self, call](const std::vector<regional::StepResult>& results) {
                        using Status = regional::StepResult::Status;
                        self->end_takeover(*call, results[0].status == Status::kDecided);
                      });
  };
  const auto on_charged_late = [self = shared_from_this(), call](const std::vector<ExactAnswer>&) {
    self->mark_taken_over(*call);
    // It learns of it when it next tells the origin, which is soon.
    const epoch::Guard guard;
    const Tuple tuple = self->state_.tuples->table.find(call->context.key);
    if (!tuple) return;
    memory::ExactUse(tuple).mark_foreign();
    self->state_.region->mark_unreported(tuple);
  };
  state_.region->origin->exact_store()->decide(
      {charge}, answer_to<std::vector<ExactAnswer>>(call->caller, on_charged, on_charged_late));
}

// `told`: the origin knows it, too. If not, the next request does it again.
void Engine::end_takeover(Takeover& call, bool told) {
  if (told) mark_taken_over(call);
  call.done({.units = call.units.all, .complete = told});
}

void Engine::mark_taken_over(const Takeover& call) {
  takeover_marks_.add(call.context.key, mark_number(call.number, call.context.query.ask.capacity));
}

}  // namespace weir::decide
