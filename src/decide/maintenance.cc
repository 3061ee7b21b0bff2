// Everything but decisions: background work, reset, saved state, statistics and inspection.

#include <algorithm>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "decide/engine.h"
#include "decide/validate.h"
#include "memory/saved_state.h"
#include "memory/window_cells.h"

namespace weir::decide {

using memory::CellClass;
using memory::MemoryPart;
using memory::WindowCells;
using telemetry::Stat;

WorkReport Engine::run_replay(Instant now, Executor& timers, Flush flush) {
  return replay_ == nullptr ? WorkReport{} : replay_->run_once(now, timers, flush);
}

WorkReport Engine::run_shutdown(Instant now) {
  return replay_ == nullptr ? WorkReport{} : replay_->shut_down(now);
}

WorkReport Engine::run_sync(Instant now, Flush flush) {
  return sync_ == nullptr ? WorkReport{} : sync_->run_once(now, flush);
}

SyncStats Engine::sync_stats() const {
  return sync_ == nullptr ? SyncStats{} : sync_->stats();
}

WorkReport Engine::run_sweep(Instant now, size_t slots) {
  return {.done = state_.tuples->sweep(now.wall, slots)};
}

Result<bool> Engine::reset(Instant now, const Request& request) {
  if (auto error = validate(request)) return std::move(*error);
  memory::TupleStore& tuples = *state_.tuples;
  const RequestContext context(now, request, tuples.hash);
  const std::string algorithm(to_string(request.algorithm));
  if (context.cell_class() == CellClass::kWindow && tuples.is_shared()) {
    return Error{.code = ErrorCode::kShared,
                 .field = "algorithm",
                 .detail = "algorithm is " + algorithm +
                           ", whose counts at the origin or in the ledger only grow",
                 .fix =
                     "choose gcra, token_bucket, sliding_window_strict or sliding_log for tuples "
                     "to reset, or wait for the next window"};
  }
  if (is_decided_exactly(request.algorithm, request.consistency, Waiting::kPossible)) {
    const Consistency consistency = consistency_of(request.consistency, Waiting::kPossible);
    return Error{.code = ErrorCode::kShared,
                 .field = "consistency",
                 .detail = "consistency is " + std::string(to_string(consistency)) +
                           ", so the origin keeps the state of " + algorithm + " tuples",
                 .fix =
                     "choose the consistency relaxed for tuples to reset, or wait until the "
                     "state is empty"};
  }
  // The other regions have charged what this one admitted.
  if (shares_as_region(request.algorithm, request.consistency) && sync_stats().regions > 1) {
    return Error{.code = ErrorCode::kShared,
                 .field = "algorithm",
                 .detail = "algorithm is " + algorithm + ", whose counts other regions have, too",
                 .fix =
                     "choose the consistency relaxed for tuples to reset, or wait until the "
                     "state is empty"};
  }
  const bool had_past = forget_past(now, request);
  if (had_past) resets_.fetch_add(1, std::memory_order_relaxed);
  // A tuple that is created again starts empty.
  regional::end_conversion(tuples, context.key, tuples.other_classes(context.key));
  // Batches are short.
  constexpr int kMaxAttempts = 1000;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const memory::EraseResult forgotten = tuples.table.erase(context.key, now.wall);
    if (forgotten == memory::EraseResult::kErased) {
      resets_.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    if (forgotten == memory::EraseResult::kAbsent) {
      if (!tuples.sketch.holds(tuples.sketch_subject(context.key), context.query)) return had_past;
      return Error{.code = ErrorCode::kUnavailable,
                   .retry = Retry::kMayHelp,
                   .detail = "the table is full, and this tuple shares its counters with others",
                   .fix = "give the limiter more memory, or wait until the period is over"};
    }
    memory::cpu_relax();
  }
  return Error{.code = ErrorCode::kUnavailable,
               .retry = Retry::kMayHelp,
               .detail = "batches use this tuple",
               .fix = "try again"};
}

SaveReport Engine::save(Instant now, Saving saving,
                        const std::function<void(std::string_view)>& write) {
  const base::MutexLock lock(save_mutex_);
  const uint64_t resets = resets_.load(std::memory_order_relaxed);
  const bool reset = resets != std::exchange(saved_resets_, resets);
  if (reset && saving == Saving::kChanged) return {.stale = true};
  SaveReport report;
  std::string record;
  state_.tuples->table.for_each([&](const memory::Tuple& tuple) {
    const auto state = memory::save_state(
        tuple, now.wall, saving == Saving::kAll ? memory::Saving::kAll : memory::Saving::kChanged);
    if (!state) return;
    memory::encode_state(*state, record);
    write(record);
    ++report.saved;
  });
  return report;
}

bool Engine::restore(Instant now, std::string_view record) {
  const auto state = memory::decode_state(record);
  const auto query = state ? memory::query_for(*state, now.wall) : std::nullopt;
  if (!query) return false;
  const Count units = memory::units_in(*state, now.wall);
  if (units == 0) return true;  // it expired
  memory::TupleStore& tuples = *state_.tuples;
  const memory::TupleKey key(state->key, tuples.hash);
  tuples.note_class(key);
  const auto prepare = [&](const memory::Tuple& tuple) { memory::restore_state(tuple, *state); };
  const auto created = tuples.table.create(key, *query, {.veto = {}, .prepare = prepare});
  if (created == memory::CreateResult::kCreated) return true;
  if (created == memory::CreateResult::kExists) {
    charge_difference(key, *query, units);
  } else {
    memory::Query whole = *query;
    whole.ask.cost = units;
    tuples.sketch.add(tuples.sketch_subject(key), whole);
  }
  return true;
}

// Raises a tuple that exists already to at least so many units.
void Engine::charge_difference(const memory::TupleKey& key, memory::Query query, Count units) {
  constexpr int kMaxAttempts = 2;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    {
      const epoch::Guard guard;
      const memory::Tuple tuple = state_.tuples->table.find(key);
      if (!tuple) return;
      query.ask = {.capacity = std::max<Count>(1, units), .cost = 0};
      const memory::CellDecision known = Decider::decide_cells(tuple, query, memory::Effect::kPeek);
      if (known.evidence.own >= units) return;
      query.ask.cost = units - known.evidence.own;
      if (Decider::decide_cells(tuple, query, memory::Effect::kConsume).status !=
          memory::DecisionStatus::kRebuild) {
        return;
      }
    }
    (void)state_.tuples->table.rebuild(key, query);
  }
}

LimiterStats Engine::stats() const {
  const memory::TupleStore& tuples = *state_.tuples;
  const memory::TableStats table = tuples.table.stats();
  const telemetry::LimiterCounters& counters = *state_.counters;
  return {
      .admitted = counters.total(Stat::kAdmitted),
      .denied = counters.total(Stat::kDenied),
      .degraded = counters.total(Stat::kDegraded),
      .tuples = table.tuples,
      .evicted = table.evicted,
      .expired = table.expired,
      .sketched = tuples.sketch.decisions(),
      .no_memory = counters.total(Stat::kNoMemory),
      .cold = {.asked = counters.total(Stat::kColdReads),
               .failed = counters.total(Stat::kColdReadErrors)},
      .stale = {.asked = counters.total(Stat::kStaleReads),
                .failed = counters.total(Stat::kStaleReadErrors)},
      .steps = {.asked = counters.total(Stat::kSteps), .failed = counters.total(Stat::kStepErrors)},
      .unread = counters.total(Stat::kUnread),
      .made_strict = counters.total(Stat::kMadeStrict),
      .replayed = counters.total(Stat::kReplayed),
      .replay_errors = counters.total(Stat::kReplayErrors),
      .late_replays = counters.total(Stat::kLateReplays),
      .healed = counters.total(Stat::kHealed),
      .unacked = replay_ == nullptr ? 0 : replay_->unacked(),
      .replay_lag = replay_ == nullptr ? Nanos(0) : replay_->lag(),
      .rebuilt = table.rebuilt,
      .memory_bytes = table.bytes,
      .memory = {.limit = tuples.budget.limit(),
                 .table = tuples.budget.used(MemoryPart::kTable),
                 .annexes = tuples.budget.used(MemoryPart::kBuffers),
                 .keys = tuples.budget.used(MemoryPart::kKeys),
                 .sketch = tuples.budget.used(MemoryPart::kSketch),
                 .regions = tuples.budget.used(MemoryPart::kRegions)}};
}

void Engine::inspect(const std::function<void(const CellView&)>& visit) const {
  state_.tuples->table.for_each([&](const memory::Tuple& tuple) {
    if (tuple.slot->header.cell_class() != CellClass::kWindow) return;
    const WindowCells cells(tuple);
    const int64_t newest = cells.newest();
    const std::string encoded = memory::encode_key(tuple.slot->header, tuple.slot->key_words());
    for (const int64_t sequence : {newest - 1, newest}) {
      const auto count = [&](const memory::Word& word) { return memory::count_in(word, sequence); };
      visit({.tuple = encoded,
             .sequence = sequence,
             .own = count(cells.own(sequence)),
             .siblings = count(cells.siblings(sequence)),
             .foreign = count(cells.foreign(sequence)),
             .tentative = memory::tentative_amount(cells.tentative()),
             .acked = count(cells.acked(sequence)),
             .generation = cells.generation()});
    }
  });
}

}  // namespace weir::decide
