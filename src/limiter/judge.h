// Holds one request against the counts of its tuple, wherever they are: in the table,
// in the sketch if the table is full, or nowhere yet.
//
// Knows nothing of reading and telling; it leaves the marks they go by: an admission
// makes a window tuple dirty, a denial makes it strict.
//
// Safe from any thread.

#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "algorithms/windows.h"
#include "base/inline.h"
#include "limiter/store.h"
#include "memory/head_lock.h"
#include "memory/lifecycle.h"
#include "memory/slot.h"
#include "memory/tuple_meta.h"
#include "memory/window_cells.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir::limiter {

// A valid request on its way through: read once, hashed once.
struct RequestContext {
  RequestContext() = default;
  WEIR_HOT_INLINE RequestContext(Instant at, const Request& request, const base::KeyedHash& hash)
      : now(at),
        key(request, hash),
        query(memory::query_of(at.wall, request)),
        on_origin_loss(request.on_origin_loss) {}

  Instant now{};
  memory::TupleKey key;
  memory::Query query;
  std::optional<OnOriginLoss> on_origin_loss{};
  // What the origin told of a tuple this process does not hold, for a peek at it.
  std::optional<algorithms::WindowCounts> received{};

  [[nodiscard]] memory::CellClass cell_class() const { return key.header().cell_class(); }
  // As if it had been asked then.
  void ask_at(Instant then) {
    now = then;
    query.now = then.wall;
  }
};

struct Ruling {
  memory::CellDecision step{};
  bool sketched = false;  // counted in the sketch, or in a log that cannot grow: on less than asked
};

// How often a request that came late is asked again at the present. Each time, the thread must have
// slept through a whole window between reading the clock and looking at the tuple.
inline constexpr int kLateTurns = 4;

class Decider {
 public:
  explicit Decider(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  // Decides and charges what it admits. A tuple not seen before is created, unless the
  // cost is 0.
  [[nodiscard]] Ruling rule(const RequestContext& context);

  // The same for a window tuple that is known and undisturbed, which is nearly all there
  // is to do. False: nothing was done, call rule().
  [[nodiscard]] bool rule_known(const RequestContext& context, Ruling& ruling);
  // The same once it is found, of whatever class, by a pinned caller.
  [[nodiscard]] bool rule_found(const memory::Tuple& tuple, MonoTime now,
                                const memory::Query& query, Ruling& ruling);

  // Decides without any trace. Nothing, if this process knows nothing of the tuple.
  [[nodiscard]] std::optional<Ruling> look(const RequestContext& context);

  // Decides on a tuple that has no place in the table.
  [[nodiscard]] Ruling rule_sketched(const RequestContext& context, memory::Effect effect) const;

  // The ruling of a step on a tuple that was found, by a pinned caller.
  [[nodiscard]] Ruling ruling_of(const memory::Tuple& tuple, const memory::Query& query,
                                 const memory::CellDecision& step) const;

  // Decides on a tuple that was found, by a pinned caller; leaves no marks.
  [[nodiscard]] static memory::CellDecision decide(const memory::Tuple& tuple,
                                                   const memory::Query& query,
                                                   memory::Effect effect);

  // Runs `work` on the tuple, pinned, until it is decided or late: creates, waits for
  // whoever moves it, rebuilds as needed. Nothing: there is no room for it in the table.
  template <typename Work>
  [[nodiscard]] std::optional<memory::CellDecision> with_tuple(const RequestContext& context,
                                                               const Work& work);

  // Decides in the sketch.
  [[nodiscard]] memory::CellDecision decide_sketched(const RequestContext& context,
                                                     memory::Effect effect) const {
    return store_->sketch.decide(store_->sketched(context.key), context.query, effect,
                                 store_->remembered(context.key, context.query));
  }

  // The marks that an admission and a denial leave.
  void mark_charged(const memory::Tuple& tuple, const memory::Query& query,
                    const memory::CellDecision& step) const;
  // What it comes to for a tuple that was just marked dirty.
  void list_dirty(const memory::Tuple& tuple, Count limit, Algorithm algorithm) const;
  void mark_denied(const memory::Tuple& tuple, MonoTime now, const memory::Query& query) const {
    // What the counts would have let pass was not denied by them.
    if (!store_->shared() || query.bound.is_set()) return;
    if (tuple.slot->header.cell_class() != memory::CellClass::kWindow) return;
    if (store_->asks()) make_strict(tuple, now, query);
    if (store_->shares()) look_after_denial(tuple, query);
  }

  // Decides by the sketch, for a tuple that has no place in the table. False: it has one now.
  template <typename Work>
  [[nodiscard]] bool in_sketch(const RequestContext& context, const Work& work) const {
    return store_->table.while_absent(context.key, work);
  }

  // Decides on a tuple this process does not hold, by what was heard of it.
  [[nodiscard]] Ruling rule_unknown(const RequestContext& context) const;

  // What is answered where the tuple is there but could not be decided on in time.
  [[nodiscard]] static memory::CellDecision refused_for_one_tick(const RequestContext& context);

  // The decision on a tuple of which only this much is known.
  [[nodiscard]] static memory::CellDecision decide_on_counts(
      const memory::Query& query, const algorithms::WindowCounts& counts);

 private:
  // Whether the tuple's state is of after a request, but not of after the present.
  [[nodiscard]] bool is_late(const memory::Tuple& tuple, WallTime asked) const;
  // rule() and look(). Nothing: the case is late, and nothing was done.
  [[nodiscard]] std::optional<Ruling> try_rule(const RequestContext& context);
  [[nodiscard]] std::optional<std::optional<Ruling>> try_look(const RequestContext& context) const;
  void make_strict(const memory::Tuple& tuple, MonoTime now, const memory::Query& query) const;
  [[nodiscard]] memory::CreateResult make(const RequestContext& context,
                                          memory::DecisionStatus status) const;
  void introduce(const RequestContext& context, const Abroad& known,
                 const memory::Tuple& tuple) const;
  void reclaim(WallTime now) const;
  void look_after_denial(const memory::Tuple& tuple, const memory::Query& query) const;

  const std::shared_ptr<Store> store_;
};

inline void Decider::mark_charged(const memory::Tuple& tuple, const memory::Query& query,
                                  const memory::CellDecision& step) const {
  if (!store_->shared() || tuple.slot->header.cell_class() != memory::CellClass::kWindow) return;
  const memory::WindowCells cells(tuple);
  if (cells.mark_dirty()) list_dirty(tuple, query.limit, query.algorithm);
  if (!store_->shares()) return;
  const memory::TupleWatch watch = cells.watch_seq_cst();
  if (Store::is_news(watch, step.evidence, query.ask.cost, query.limit)) {
    store_->look_after_charge(tuple, watch, step.evidence, query.limit, query.algorithm);
  }
}

WEIR_HOT_INLINE bool Decider::rule_known(const RequestContext& context, Ruling& ruling) {
  if (context.cell_class() != memory::CellClass::kWindow) return false;
  const epoch::Guard guard;
  const memory::Tuple tuple = store_->table.find(context.key);
  return tuple && rule_found(tuple, context.now.mono, context.query, ruling);
}

WEIR_HOT_INLINE bool Decider::rule_found(const memory::Tuple& tuple, MonoTime now,
                                         const memory::Query& query, Ruling& ruling) {
  const bool is_window = memory::class_of(query.algorithm) == memory::CellClass::kWindow;
  if (is_window) {
    memory::WindowCells(tuple).decide(query, memory::Effect::kConsume, ruling.step);
  } else {
    ruling = ruling_of(tuple, query, decide(tuple, query, memory::Effect::kConsume));
  }
  if (ruling.step.status != memory::DecisionStatus::kDecided) return false;
  if (ruling.step.decision.admitted()) {
    if (query.ask.cost == 0) {
      return is_window ? memory::WindowCells(tuple).fits(query)
                       : !memory::is_ahead_of(tuple, query.now);
    }
    mark_charged(tuple, query, ruling.step);
    return true;
  }
  if (memory::tentative_amount(tuple.cold->tentative) != 0) return false;
  if (ruling.step.decision.outcome == Outcome::kDenied) mark_denied(tuple, now, query);
  return true;
}

template <typename Work>
std::optional<memory::CellDecision> Decider::with_tuple(const RequestContext& context,
                                                        const Work& work) {
  // Each turn ends with another thread having moved or forgotten the tuple, or with this one having
  // made it; that does not go on. Nobody waits here for a batch that holds it: see hold.h.
  constexpr int kTurns = 16;
  for (int turn = 0; turn < kTurns; ++turn) {
    memory::DecisionStatus status = memory::DecisionStatus::kRetry;
    {
      const epoch::Guard guard;
      if (const memory::Tuple tuple = store_->table.find(context.key)) [[likely]] {
        const memory::CellDecision step = work(tuple);
        if (step.status == memory::DecisionStatus::kDecided) [[likely]]
          return step;
        status = step.status;
        // A thread that was put to sleep between reading the time and coming here must not
        // make everyone else's counts begin anew.
        if (status == memory::DecisionStatus::kRebuild && is_late(tuple, context.now.wall)) {
          return memory::CellDecision{.status = memory::DecisionStatus::kLate};
        }
      }
    }
    const memory::CreateResult made = make(context, status);
    if (made == memory::CreateResult::kNoMemory) reclaim(context.query.now);
    const bool rebuilds = status == memory::DecisionStatus::kRebuild;
    if (made == memory::CreateResult::kFull && rebuilds) break;
    if (made == memory::CreateResult::kFull) return std::nullopt;
    if (made == memory::CreateResult::kNoMemory && !rebuilds) return std::nullopt;
  }
  // Its counts are in the table, so the sketch must not judge it.
  return refused_for_one_tick(context);
}

}  // namespace weir::limiter
