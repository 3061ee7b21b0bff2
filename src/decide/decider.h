// Decides one request against the counts of its tuple: in the table, in the sketch if the table is
// full, or on the counts of others if the tuple is in neither.
//
// It neither reads the origin nor replays. It leaves the marks that start both: an admission marks
// a window tuple dirty, and with a ledger a denial publishes it.
//
// Safe from any thread.

#pragma once

#include <optional>
#include <utility>

#include "algorithms/windows.h"
#include "base/inline.h"
#include "decide/limiter_state.h"
#include "decide/request_context.h"
#include "memory/head_lock.h"
#include "memory/lifecycle.h"
#include "memory/slot.h"
#include "memory/tuple_meta.h"
#include "memory/window_cells.h"
#include "regional/conversion.h"
#include "weir/time.h"

namespace weir::decide {

// How often a late request is retried at the present time. Each retry means that the thread slept
// through a whole window between reading the clock and reading the tuple.
inline constexpr int kMaxLateRetries = 4;

class Decider {
 public:
  explicit Decider(LimiterState state) : state_(std::move(state)) {}

  // Decides, and charges what it admits. Creates the tuple if need be, unless the cost is 0.
  [[nodiscard]] memory::CellDecision decide(const RequestContext& context);

  // The same for a window tuple in the table that no other thread moves, which is nearly always so.
  // False: nothing was done, call decide().
  [[nodiscard]] bool decide_in_table(const RequestContext& context, memory::CellDecision& result);
  // The same for a tuple of any class that was found; the caller holds an epoch guard.
  [[nodiscard]] bool decide_found(const memory::Tuple& tuple, const memory::Query& query,
                                  memory::CellDecision& result);

  // Decides without changing anything. None: this process has no counts of the tuple.
  [[nodiscard]] std::optional<memory::CellDecision> peek(const RequestContext& context);

  // Decides on the cells of a tuple, by its class; sets no marks. The caller holds an epoch guard.
  [[nodiscard]] static memory::CellDecision decide_cells(const memory::Tuple& tuple,
                                                         const memory::Query& query,
                                                         memory::Effect effect);
  // Decides on these counts alone.
  [[nodiscard]] static memory::CellDecision decide_counts(const memory::Query& query,
                                                          const algorithms::WindowCounts& counts);
  // Decides as if so many units had been admitted just now, and nothing else; not of windows.
  [[nodiscard]] static memory::CellDecision decide_after(const memory::Query& query, Count units);
  // Decides in the sketch, for a tuple that is not in the table.
  [[nodiscard]] memory::CellDecision decide_in_sketch(const RequestContext& context,
                                                      memory::Effect effect) const;
  // Decides on the counts of siblings and other regions, for a tuple of which this process has
  // none.
  [[nodiscard]] memory::CellDecision decide_without_tuple(const RequestContext& context) const;
  // A denial for one tick, for a tuple that could not be decided in time.
  [[nodiscard]] static memory::CellDecision deny_for_one_tick(const RequestContext& context);

  // Sets `approximate` if the tuple is a log that could not grow to the limit of the query.
  void set_accuracy(const memory::Tuple& tuple, const memory::Query& query,
                    memory::CellDecision& result) const {
    if (tuple.slot->header.cell_class() == memory::CellClass::kLog) {
      set_accuracy_of_log(tuple, query, result);
    }
  }

  // Runs `work` on the tuple, under an epoch guard, until it decides or reports kLate. Creates or
  // rebuilds the tuple, and waits for threads that move it. None: the table has no space for it.
  template <typename Work>
  [[nodiscard]] std::optional<memory::CellDecision> with_tuple(const RequestContext& context,
                                                               const Work& work);
  // Runs `work` while no thread can create the tuple. False: the tuple is in the table.
  template <typename Work>
  [[nodiscard]] bool while_absent(const RequestContext& context, const Work& work) const {
    return state_.tuples->table.while_absent(context.key, work);
  }

  // Marks a tuple after an admission and after a denial.
  void mark_charged(const memory::Tuple& tuple, const memory::Query& query,
                    const memory::CellDecision& result) const;
  void mark_denied(const memory::Tuple& tuple, const memory::Query& query) const {
    // A denial by the loss policy or the allowance says nothing about the counts.
    if (!state_.tuples->is_shared() || query.bound.is_set()) return;
    if (tuple.slot->header.cell_class() != memory::CellClass::kWindow) return;
    if (state_.tuples->has_origin()) {
      memory::record_ask(tuple.cold->meta, query.limit, query.algorithm);
    }
    if (state_.publish_watch) state_.publish_watch->after_denial(tuple, query.limit);
  }
  // Queues a tuple for replay that was just marked dirty.
  void enqueue_replay(const memory::Tuple& tuple, Count limit, Algorithm algorithm) const;

 private:
  void set_accuracy_of_log(const memory::Tuple& tuple, const memory::Query& query,
                           memory::CellDecision& result) const;
  // Whether the tuple is ahead of the request but not of the present.
  [[nodiscard]] bool is_late(const memory::Tuple& tuple, WallTime requested) const;
  // decide() and peek(). The outer optional is empty if the request is late and nothing was done.
  [[nodiscard]] std::optional<memory::CellDecision> try_decide(const RequestContext& context);
  [[nodiscard]] std::optional<std::optional<memory::CellDecision>> try_peek(
      const RequestContext& context) const;
  [[nodiscard]] memory::CreateResult create_or_rebuild(const RequestContext& context,
                                                       memory::DecisionStatus status) const;
  // What a new tuple of the request takes over from tuples of other classes.
  [[nodiscard]] regional::Conversion taken_over(const RequestContext& context) const;
  void note_taken_over(const RequestContext& context, const regional::Conversion& conversion) const;
  static void merge_remote(const RequestContext& context, const global::LedgerTotals& totals,
                           const memory::Tuple& tuple);
  void sweep_some(WallTime now) const;

  const LimiterState state_;
};

inline void Decider::mark_charged(const memory::Tuple& tuple, const memory::Query& query,
                                  const memory::CellDecision& result) const {
  if (!state_.tuples->is_shared()) return;
  if (tuple.slot->header.cell_class() != memory::CellClass::kWindow) return;
  const memory::WindowCells cells(tuple);
  if (cells.mark_dirty()) enqueue_replay(tuple, query.limit, query.algorithm);
  if (!state_.publish_watch) return;
  const memory::TupleWatch watch = cells.watch_seq_cst();
  if (memory::PublishWatch::may_change_rule(watch, result.evidence, query.ask.cost, query.limit)) {
    state_.publish_watch->after_charge(tuple, watch, result.evidence, query.limit, query.algorithm);
  }
}

WEIR_HOT_INLINE bool Decider::decide_in_table(const RequestContext& context,
                                              memory::CellDecision& result) {
  if (context.cell_class() != memory::CellClass::kWindow) return false;
  const epoch::Guard guard;
  const memory::Tuple tuple = state_.tuples->table.find(context.key);
  return tuple && decide_found(tuple, context.query, result);
}

WEIR_HOT_INLINE bool Decider::decide_found(const memory::Tuple& tuple, const memory::Query& query,
                                           memory::CellDecision& result) {
  const bool is_window = memory::class_of(query.algorithm) == memory::CellClass::kWindow;
  if (is_window) {
    memory::WindowCells(tuple).decide(query, memory::Effect::kConsume, result);
  } else {
    result = decide_cells(tuple, query, memory::Effect::kConsume);
    set_accuracy(tuple, query, result);
  }
  if (result.status != memory::DecisionStatus::kDecided) return false;
  if (result.decision.admitted()) {
    if (query.ask.cost == 0) {
      return is_window ? memory::WindowCells(tuple).fits(query)
                       : !memory::is_ahead_of(tuple, query.now);
    }
    mark_charged(tuple, query, result);
    return true;
  }
  if (memory::tentative_amount(tuple.cold->tentative) != 0) return false;
  if (result.decision.outcome == Outcome::kDenied) mark_denied(tuple, query);
  return true;
}

template <typename Work>
std::optional<memory::CellDecision> Decider::with_tuple(const RequestContext& context,
                                                        const Work& work) {
  // An attempt fails if another thread moved or removed the tuple, or if this one had to create it;
  // neither repeats for long. No attempt waits for a batch that holds the tuple: see
  // memory/head_lock.h.
  constexpr int kMaxAttempts = 16;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    memory::DecisionStatus status = memory::DecisionStatus::kRetry;
    {
      const epoch::Guard guard;
      if (const memory::Tuple tuple = state_.tuples->table.find(context.key)) [[likely]] {
        const memory::CellDecision result = work(tuple);
        if (result.status == memory::DecisionStatus::kDecided) [[likely]]
          return result;
        status = result.status;
        // A thread that slept after it read the clock must not reset the counts of all others.
        if (status == memory::DecisionStatus::kRebuild && is_late(tuple, context.now.wall)) {
          return memory::CellDecision{.status = memory::DecisionStatus::kLate};
        }
      }
    }
    const memory::CreateResult created = create_or_rebuild(context, status);
    if (created == memory::CreateResult::kNoMemory) sweep_some(context.query.now);
    const bool rebuilds = status == memory::DecisionStatus::kRebuild;
    if (created == memory::CreateResult::kFull && rebuilds) break;
    if (created == memory::CreateResult::kFull) return std::nullopt;
    if (created == memory::CreateResult::kNoMemory && !rebuilds) return std::nullopt;
  }
  // The counts are in the table, so the sketch must not decide.
  return deny_for_one_tick(context);
}

}  // namespace weir::decide
