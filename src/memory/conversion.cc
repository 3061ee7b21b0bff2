#include "memory/conversion.h"

#include <algorithm>

#include "memory/backlog_cell.h"
#include "memory/exact_use.h"
#include "memory/lifecycle.h"
#include "memory/log_cell.h"
#include "memory/ring_cell.h"
#include "memory/tuple_meta.h"
#include "memory/window_cells.h"

namespace weir::memory {
namespace {

constexpr ClassSet kEveryClass = 15;

Word& taken_word(const Tuple& tuple) {
  const bool is_window = tuple.slot->header.cell_class() == CellClass::kWindow;
  return is_window ? tuple.slot->hot[7] : tuple.cold->meta;
}

int taken_shift(const Tuple& tuple) {
  const bool is_window = tuple.slot->header.cell_class() == CellClass::kWindow;
  return is_window ? TupleWatch::kTakenShift : ExactUse::kTakenShift;
}

Count units_of_window(const Tuple& tuple, WallTime now) {
  const TupleMeta meta{tuple.cold->meta.load(std::memory_order_relaxed)};
  const CellDecision seen = WindowCells(tuple).decide({.now = now,
                                                       .algorithm = meta.algorithm(),
                                                       .duration = tuple.slot->header.duration(),
                                                       .limit = kMaxCount,
                                                       .ask = {.capacity = kMaxCount, .cost = 0}},
                                                      Effect::kPeek);
  if (seen.status != DecisionStatus::kDecided) return 0;
  const Evidence& of = seen.evidence;
  return of.own + of.siblings + of.foreign + of.previous;
}

// The units in the state of this process.
Count units_here(const Tuple& tuple, WallTime now) {
  if (expires_at(tuple) <= now) return 0;
  switch (tuple.slot->header.cell_class()) {
    case CellClass::kWindow: return units_of_window(tuple, now);
    case CellClass::kBacklog: {
      const BacklogCell cell(tuple);
      const uint64_t tat = tuple.slot->hot[1].load(std::memory_order_acquire);
      if (tat == kFrozen || !algorithms::reaches(cell.epoch(), now, cell.pace())) return 0;
      return algorithms::backlog_at(now, {.epoch = cell.epoch(), .tat = {tat}}, cell.pace());
    }
    case CellClass::kRing:
    case CellClass::kLog: break;
  }
  Query peek{.now = now,
             .algorithm = Algorithm::kSlidingWindowStrict,
             .duration = tuple.slot->header.duration(),
             .limit = kMaxLimit,
             .ask = {.capacity = kMaxLimit, .cost = 0}};
  if (tuple.slot->header.cell_class() == CellClass::kRing) {
    return RingCell(tuple).decide(peek, Effect::kPeek).evidence.own;
  }
  peek.algorithm = Algorithm::kSlidingLog;
  peek.limit = peek.ask.capacity = kMaxLogLimit;
  return LogCell(tuple).decide(peek, Effect::kPeek).evidence.own;
}

// The units that counted at the origin at its last answer. Less what has drained since the answer
// was fresh: when exactly units leave a ring or a log is not known here.
Count units_at_origin(const Tuple& tuple, MonoTime now) {
  if (tuple.slot->header.cell_class() == CellClass::kWindow) return 0;
  const ExactUse use(tuple);
  const ExactUse::Known known = use.known();
  if (known.fresh_until == MonoTime{}) return 0;
  const Count unreported = mutated(Mutation::kConvertedWithoutUnreported) ? 0 : use.unreported();
  const Count used = base::saturating_add(known.used, unreported);
  if (known.fresh_until >= now) return used;
  const Nanos since = now - known.fresh_until;
  const Millis duration = tuple.slot->header.duration();
  if (tuple.slot->header.cell_class() != CellClass::kBacklog) return since < duration ? used : 0;
  const Count limit = tuple.slot->hot[3].load(std::memory_order_relaxed);
  return base::saturating_sub(used, base::mul_div(limit, static_cast<uint64_t>(since / Millis(1)),
                                                  static_cast<uint64_t>(duration.count())));
}

}  // namespace

TupleKey key_of_class(const TupleKey& key, CellClass cell_class, const base::KeyedHash& hash) {
  KeyHeader header = key.header();
  header.word = (header.word & ~(uint64_t{3} << 30)) | static_cast<uint64_t>(cell_class) << 30;
  return {header, key.words(), hash};
}

Count units_now(const Tuple& tuple, Instant now) {
  const Count tentative = tentative_amount(tuple.cold->tentative);
  return std::max(base::saturating_sub(units_here(tuple, now.wall), tentative),
                  units_at_origin(tuple, now.mono));
}

ClassSet taken_by(const Tuple& tuple) {
  const uint64_t word = taken_word(tuple).load(std::memory_order_acquire);
  return static_cast<ClassSet>(word >> taken_shift(tuple) & kEveryClass);
}

void mark_taken(const Tuple& tuple, ClassSet by) {
  taken_word(tuple).fetch_or(uint64_t{by} << taken_shift(tuple), std::memory_order_acq_rel);
}

void mark_told(const Tuple& tuple) {
  if (!is_open(tuple)) return;
  const uint64_t bit = set_of(tuple.slot->header.cell_class());
  taken_word(tuple).fetch_and(~(bit << taken_shift(tuple)), std::memory_order_acq_rel);
}

void seed(const Tuple& tuple, const Query& query, Count units) {
  Query whole = query;
  whole.bound = {};
  whole.ask.cost = units;
  switch (tuple.slot->header.cell_class()) {
    case CellClass::kWindow:
      whole.ask.capacity = kMaxCount;
      // As the first charge of a window does.
      WindowCells(tuple).reset_watch(query.limit);
      (void)WindowCells(tuple).decide(whole, Effect::kConsume);
      return;
    case CellClass::kBacklog: (void)BacklogCell(tuple).decide(whole, Effect::kConsume); return;
    case CellClass::kRing: (void)RingCell(tuple).decide(whole, Effect::kConsume); return;
    case CellClass::kLog: (void)LogCell(tuple).decide(whole, Effect::kConsume); return;
  }
}

}  // namespace weir::memory
