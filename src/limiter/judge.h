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
#include "memory/hold.h"
#include "memory/lifecycle.h"
#include "memory/noted.h"
#include "memory/slot.h"
#include "memory/window_cells.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir::limiter {

// A valid request on its way through: read once, hashed once.
struct Case {
  Case() = default;
  WEIR_HOT_INLINE Case(Instant at, const Request& request, const base::KeyedHash& hash)
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
  memory::Step step{};
  bool sketched = false;  // counted in the sketch, or in a log that cannot grow: on less than asked
};

// How often a request that came late is asked again at the present. Each time, the thread must have
// slept through a whole window between reading the clock and looking at the tuple.
inline constexpr int kLateTurns = 4;

class Judge {
 public:
  explicit Judge(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  // Decides and charges what it admits. A tuple not seen before is created, unless the
  // cost is 0.
  [[nodiscard]] Ruling rule(const Case& the_case);

  // The same for a window tuple that is known and undisturbed, which is nearly all there
  // is to do. False: nothing was done, call rule().
  [[nodiscard]] bool rule_known(const Case& the_case, Ruling& ruling);
  // The same once it is found, of whatever class, by a pinned caller.
  [[nodiscard]] bool rule_found(const memory::Tuple& tuple, MonoTime now,
                                const memory::Query& query, Ruling& ruling);

  // Decides without any trace. Nothing, if this process knows nothing of the tuple.
  [[nodiscard]] std::optional<Ruling> look(const Case& the_case);

  // Decides on a tuple that has no place in the table.
  [[nodiscard]] Ruling rule_sketched(const Case& the_case, memory::Effect effect) const;

  // The ruling of a step on a tuple that was found, by a pinned caller.
  [[nodiscard]] Ruling ruling_of(const memory::Tuple& tuple, const memory::Query& query,
                                 const memory::Step& step) const;

  // Decides on a tuple that was found, by a pinned caller; leaves no marks.
  [[nodiscard]] static memory::Step decide(const memory::Tuple& tuple, const memory::Query& query,
                                           memory::Effect effect);

  // Runs `work` on the tuple, pinned, until it is decided or late: creates, waits for
  // whoever moves it, rebuilds as needed. Nothing: there is no room for it in the table.
  template <typename Work>
  [[nodiscard]] std::optional<memory::Step> with_tuple(const Case& the_case, const Work& work);

  // Decides in the sketch.
  [[nodiscard]] memory::Step decide_sketched(const Case& the_case, memory::Effect effect) const {
    return store_->sketch.decide(store_->sketched(the_case.key), the_case.query, effect,
                                 store_->remembered(the_case.key, the_case.query));
  }

  // The marks that an admission and a denial leave.
  void mark_charged(const memory::Tuple& tuple, const memory::Query& query,
                    const memory::Step& step) const;
  // What it comes to for a tuple that was just marked dirty.
  void list_dirty(const memory::Tuple& tuple, Count limit, Algorithm algorithm) const;
  void mark_denied(const memory::Tuple& tuple, MonoTime now, const memory::Query& query) const {
    // What the counts would have let pass was not denied by them.
    if (!store_->shared() || query.bound.holds()) return;
    if (tuple.slot->header.cell_class() != memory::CellClass::kWindow) return;
    if (store_->asks()) make_strict(tuple, now, query);
    if (store_->shares()) look_after_denial(tuple, query);
  }

  // Decides by the sketch, for a tuple that has no place in the table. False: it has one now.
  template <typename Work>
  [[nodiscard]] bool in_sketch(const Case& the_case, const Work& work) const {
    return store_->table.while_absent(the_case.key, work);
  }

  // Decides on a tuple this process does not hold, by what was heard of it.
  [[nodiscard]] Ruling rule_unknown(const Case& the_case) const;

  // What is answered where the tuple is there but could not be decided on in time.
  [[nodiscard]] static memory::Step refused_for_one_tick(const Case& the_case);

  // The decision on a tuple of which only this much is known.
  [[nodiscard]] static memory::Step decide_on_counts(const memory::Query& query,
                                                     const algorithms::WindowCounts& counts);

 private:
  // Whether the tuple's state is of after a request, but not of after the present.
  [[nodiscard]] bool is_late(const memory::Tuple& tuple, WallTime asked) const;
  // rule() and look(). Nothing: the case is late, and nothing was done.
  [[nodiscard]] std::optional<Ruling> try_rule(const Case& the_case);
  [[nodiscard]] std::optional<std::optional<Ruling>> try_look(const Case& the_case) const;
  void make_strict(const memory::Tuple& tuple, MonoTime now, const memory::Query& query) const;
  [[nodiscard]] memory::Created make(const Case& the_case, memory::Fate fate) const;
  void introduce(const Case& the_case, const Abroad& known, const memory::Tuple& tuple) const;
  void reclaim(WallTime now) const;
  void look_after_denial(const memory::Tuple& tuple, const memory::Query& query) const;

  const std::shared_ptr<Store> store_;
};

inline void Judge::mark_charged(const memory::Tuple& tuple, const memory::Query& query,
                                const memory::Step& step) const {
  if (!store_->shared() || tuple.slot->header.cell_class() != memory::CellClass::kWindow) return;
  const memory::WindowCells cells(tuple);
  if (cells.mark_dirty()) list_dirty(tuple, query.limit, query.algorithm);
  if (!store_->shares()) return;
  const memory::Mark mark = cells.mark_in_order();
  if (Store::is_news(mark, step.evidence, query.ask.cost, query.limit)) {
    store_->look_after_charge(tuple, mark, step.evidence, query.limit, query.algorithm);
  }
}

WEIR_HOT_INLINE bool Judge::rule_known(const Case& the_case, Ruling& ruling) {
  if (the_case.cell_class() != memory::CellClass::kWindow) return false;
  const epoch::Guard guard;
  const memory::Tuple tuple = store_->table.find(the_case.key);
  return tuple && rule_found(tuple, the_case.now.mono, the_case.query, ruling);
}

WEIR_HOT_INLINE bool Judge::rule_found(const memory::Tuple& tuple, MonoTime now,
                                       const memory::Query& query, Ruling& ruling) {
  const bool is_window = memory::class_of(query.algorithm) == memory::CellClass::kWindow;
  if (is_window) {
    memory::WindowCells(tuple).decide(query, memory::Effect::kConsume, ruling.step);
  } else {
    ruling = ruling_of(tuple, query, decide(tuple, query, memory::Effect::kConsume));
  }
  if (ruling.step.fate != memory::Fate::kDecided) return false;
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
std::optional<memory::Step> Judge::with_tuple(const Case& the_case, const Work& work) {
  // Each turn ends with another thread having moved or forgotten the tuple, or with this one having
  // made it; that does not go on. Nobody waits here for a batch that holds it: see hold.h.
  constexpr int kTurns = 16;
  for (int turn = 0; turn < kTurns; ++turn) {
    memory::Fate fate = memory::Fate::kLookAgain;
    {
      const epoch::Guard guard;
      if (const memory::Tuple tuple = store_->table.find(the_case.key)) [[likely]] {
        const memory::Step step = work(tuple);
        if (step.fate == memory::Fate::kDecided) [[likely]]
          return step;
        fate = step.fate;
        // A thread that was put to sleep between reading the time and coming here must not
        // make everyone else's counts begin anew.
        if (fate == memory::Fate::kRebuild && is_late(tuple, the_case.now.wall)) {
          return memory::Step{.fate = memory::Fate::kLate};
        }
      }
    }
    const memory::Created made = make(the_case, fate);
    if (made == memory::Created::kNoMemory) reclaim(the_case.query.now);
    const bool rebuilds = fate == memory::Fate::kRebuild;
    if (made == memory::Created::kFull && rebuilds) break;
    if (made == memory::Created::kFull) return std::nullopt;
    if (made == memory::Created::kNoMemory && !rebuilds) return std::nullopt;
  }
  // Its counts are in the table, so the sketch must not judge it.
  return refused_for_one_tick(the_case);
}

}  // namespace weir::limiter
