#include "memory/lifecycle.h"

#include <algorithm>

#include "memory/backlog_cell.h"
#include "memory/exact_use.h"
#include "memory/log_cell.h"
#include "memory/ring_cell.h"
#include "memory/tuple_meta.h"
#include "memory/window_cells.h"

namespace weir::memory {
namespace {

// Relaxed: before a slot is published and after it was reclaimed no other thread reads it.
void put(Word& word, uint64_t value) {
  word.store(value, std::memory_order_relaxed);
}
uint64_t get(const Word& word) {
  return word.load(std::memory_order_relaxed);
}

void begin_backlog(const Tuple& tuple, const Query& query, const algorithms::Backlog& backlog) {
  const algorithms::Pace pace = algorithms::pace_of(query.limit, query.duration);
  put(tuple.slot->hot[0], static_cast<uint64_t>(query.now.time_since_epoch().count()));
  put(tuple.slot->hot[1], backlog.tat.since_epoch);
  put(tuple.slot->hot[3], query.limit);
  put(tuple.slot->hot[4], pace.num);
  put(tuple.slot->hot[5], pace.den);
  put(tuple.slot->hot[6], static_cast<uint64_t>(backlog.epoch.time_since_epoch().count()));
  put(tuple.slot->hot[7], static_cast<uint64_t>(query.duration.count()));
}

void put_stamp(const Tuple& tuple, uint64_t unit, WallTime stamp) {
  put(tuple.slot->buffer<Word>()[unit & get(tuple.slot->hot[4])], LogHead::make(stamp, unit).word);
}

void begin_log(const Tuple& tuple, const Query& query) {
  const size_t units = log_buffer_units(query.ask.capacity);
  put(tuple.slot->hot[1], LogHead::make(query.now, 0).word);
  put(tuple.slot->hot[3], reinterpret_cast<uint64_t>(new Word[units]));
  put(tuple.slot->hot[4], units - 1);
  for (uint64_t back = 1; back <= units; ++back) put_stamp(tuple, -back, algorithms::kNoStamp);
}

// A locked head means that a batch is charging; a closed own word only belongs to an old window.
std::optional<uint64_t> freeze_head(Word& head) {
  uint64_t seen = head.load(std::memory_order_acquire);
  do {
    if (is_locked(seen)) return std::nullopt;
  } while (!head.compare_exchange_weak(seen, kFrozen, std::memory_order_seq_cst,
                                       std::memory_order_acquire));
  return seen;
}

void copy_log(const Tuple& old, LogHead head, const Tuple& tuple) {
  const uint64_t old_mask = get(old.slot->hot[4]);
  const uint64_t mask = get(tuple.slot->hot[4]);
  for (uint64_t back = 1; back <= mask + 1; ++back) {
    const uint64_t unit = (head.unit() - back) & LogHead::kUnitMask;
    WallTime stamp = algorithms::kNoStamp;
    if (back <= old_mask + 1) {
      const LogHead entry{get(old.slot->buffer<Word>()[unit & old_mask])};
      // If the stamp is missing, its writer will still write it, but to the old buffer. It is not
      // newer than the head.
      stamp = entry.unit() == unit ? entry.stamp() : head.stamp();
    }
    put_stamp(tuple, unit, stamp);
  }
  put(tuple.slot->hot[1], head.word);
}

// The words as freeze() would return them now.
FrozenWords words_of(const Tuple& tuple) {
  const bool is_window = tuple.slot->header.cell_class() == CellClass::kWindow;
  return {.words = {tuple.slot->hot[1].load(std::memory_order_acquire),
                    is_window ? tuple.slot->hot[2].load(std::memory_order_acquire) : 0}};
}

// The newest window or sub-cell of a slot of the window or ring class. A thread raises hot[0]
// before it charges a new one; the words contain it for a reader that sees the charge first.
int64_t newest_of(const Slot& slot, const FrozenWords& frozen) {
  auto newest = static_cast<int64_t>(slot.hot[0].load(std::memory_order_acquire));
  for (const uint64_t word : frozen.words) {
    if (word != 0 && word != kFrozen) newest += std::max<int64_t>(0, Tagged{word}.ahead_of(newest));
  }
  return newest;
}

}  // namespace

void init_state(const Tuple& tuple, const Query& query, const InitialState& initial) {
  for (Word& word : tuple.slot->hot) put(word, 0);
  for (auto* pair : {tuple.cold->siblings, tuple.cold->foreign, tuple.cold->acked}) {
    put(pair[0], 0);
    put(pair[1], 0);
  }
  put(tuple.cold->tentative, 0);
  if (tuple.slot->header.cell_class() == CellClass::kWindow) {
    put(tuple.cold->meta, TupleMeta::ask_bits(query.limit, query.algorithm));
  } else {
    ExactUse(tuple).begin(initial.generation + 1);  // 0: no tuple
    if (query.whole) ExactUse(tuple).begin_part(*query.whole);
  }
  switch (tuple.slot->header.cell_class()) {
    case CellClass::kWindow: {
      const int64_t sequence = algorithms::position_of(query.now, query.duration).sequence;
      put(tuple.slot->hot[0], static_cast<uint64_t>(sequence));
      // The last window has no charges and accepts none.
      put(tuple.slot->hot[1 + ((sequence - 1) & 1)], tag_bits(sequence - 1) | kClosedBit);
      put(tuple.slot->hot[5], initial.freshness);
      put(tuple.slot->hot[7], TupleWatch::initial(initial.generation).word | initial.watch_bits);
      break;
    }
    case CellClass::kBacklog:
      begin_backlog(tuple, query, algorithms::empty_backlog(query.now, query.duration));
      break;
    case CellClass::kRing: {
      const Millis width = algorithms::ring_width(query.duration);
      const int64_t sequence = algorithms::position_of(query.now, width).sequence;
      put(tuple.slot->hot[0], static_cast<uint64_t>(sequence));
      // The head belongs to a sub-cell outside the window: the ring is empty.
      put(tuple.slot->hot[1], Tagged::make(sequence - kRingBases, 1).word);
      put(tuple.slot->hot[3], reinterpret_cast<uint64_t>(new RingBuffer));
      break;
    }
    case CellClass::kLog: begin_log(tuple, query); break;
  }
}

bool fits(const Tuple& tuple, const Query& query) {
  switch (tuple.slot->header.cell_class()) {
    case CellClass::kWindow: return WindowCells(tuple).fits(query);
    case CellClass::kBacklog: return BacklogCell(tuple).fits(query);
    case CellClass::kRing: return RingCell(tuple).fits(query);
    case CellClass::kLog: break;
  }
  return LogCell(tuple).fits(query);
}

bool is_ahead_of(const Tuple& tuple, WallTime now) {
  const Slot& slot = *tuple.slot;
  const Millis duration = slot.header.duration();
  const auto newest = static_cast<int64_t>(slot.hot[0].load(std::memory_order_acquire));
  switch (slot.header.cell_class()) {
    case CellClass::kWindow: return newest > algorithms::position_of(now, duration).sequence + 1;
    case CellClass::kBacklog: return BacklogCell(tuple).is_ahead_of(now);
    case CellClass::kRing: {
      const auto at = algorithms::position_of(now, algorithms::ring_width(duration));
      return newest - at.sequence > algorithms::kRingParts;
    }
    case CellClass::kLog: break;
  }
  const uint64_t head = slot.hot[1].load(std::memory_order_acquire);
  return head != kFrozen && LogHead{head}.stamp() > now + duration;
}

void init_from(const Tuple& old, const FrozenWords& frozen, const Tuple& tuple, const Query& query,
               const InitialState& initial) {
  init_state(tuple, query, initial);
  if (old.slot->header.cell_class() != CellClass::kWindow) {
    ExactUse(tuple).continue_from(ExactUse(old));
    if (query.whole) ExactUse(tuple).begin_part(*query.whole);
  }
  switch (old.slot->header.cell_class()) {
    case CellClass::kBacklog: {
      const BacklogCell cell(old);
      const algorithms::Backlog was{.epoch = cell.epoch(), .tat = {frozen.words[0]}};
      begin_backlog(tuple, query, cell.moved(was, query));
      break;
    }
    case CellClass::kLog: {
      if (carries_over(old, frozen, query)) copy_log(old, LogHead{frozen.words[0]}, tuple);
      break;
    }
    case CellClass::kWindow:
    case CellClass::kRing: break;
  }
}

bool carries_over(const Tuple& tuple, const FrozenWords& frozen, const Query& query) {
  switch (tuple.slot->header.cell_class()) {
    case CellClass::kBacklog: return true;
    case CellClass::kLog: return LogHead{frozen.words[0]}.stamp() <= query.now + query.duration;
    case CellClass::kWindow:
    case CellClass::kRing: break;
  }
  return false;
}

void destroy_state(Slot& slot) {
  switch (slot.header.cell_class()) {
    case CellClass::kRing: delete slot.buffer<RingBuffer>(); break;
    case CellClass::kLog: delete[] slot.buffer<Word>(); break;
    case CellClass::kWindow:
    case CellClass::kBacklog: break;
  }
  if (slot.header.words() > kInlineKeyWords) delete[] slot.key_words();
  slot.header = {};
}

WallTime expires_at(const Tuple& tuple) {
  return expires_at(tuple, words_of(tuple));
}

bool has_unreported(const Tuple& tuple) {
  if (tuple.slot->header.cell_class() == CellClass::kWindow) return false;
  return ExactUse(tuple).unreported() > 0 || ExactUse(tuple).has_foreign_news();
}

WallTime expires_at(const Tuple& tuple, const FrozenWords& frozen) {
  const Slot& slot = *tuple.slot;
  const Millis duration = slot.header.duration();
  switch (slot.header.cell_class()) {
    case CellClass::kWindow: return WallTime((newest_of(slot, frozen) + 2) * duration);
    case CellClass::kBacklog: {
      const BacklogCell cell(tuple);
      // Never charged: its creator is about to charge it.
      if (frozen.words[0] == 0) return cell.newest() + cell.duration();
      const uint64_t ticks = base::ceil_div(frozen.words[0], cell.pace().den);
      return cell.epoch() + Millis(static_cast<int64_t>(ticks));
    }
    case CellClass::kRing:
      return WallTime((newest_of(slot, frozen) + algorithms::kRingCells) *
                      algorithms::ring_width(duration));
    case CellClass::kLog: break;
  }
  return LogHead{frozen.words[0]}.stamp() + duration;
}

Query peek_of(const Tuple& tuple, WallTime now) {
  const Count known = ExactUse(tuple).known().capacity;
  Query query{.now = now, .duration = tuple.slot->header.duration(), .limit = known};
  switch (tuple.slot->header.cell_class()) {
    case CellClass::kBacklog:
      query.algorithm = Algorithm::kGcra;
      query.limit = get(tuple.slot->hot[3]);
      query.duration = BacklogCell(tuple).duration();
      break;
    case CellClass::kRing: query.algorithm = Algorithm::kSlidingWindowStrict; break;
    case CellClass::kLog:
    case CellClass::kWindow: query.algorithm = Algorithm::kSlidingLog; break;
  }
  query.ask = {.capacity = std::max<Count>({known, known == 0 ? query.limit : 0, 1}), .cost = 0};
  if (const auto whole = ExactUse(tuple).whole()) query.limit = whole->limit;
  return query;
}

Count used_in(const Tuple& tuple, WallTime now) {
  Query query{.now = now, .duration = tuple.slot->header.duration(), .limit = kMaxCount};
  CellDecision peek;
  switch (tuple.slot->header.cell_class()) {
    case CellClass::kBacklog: return BacklogCell(tuple).waiting(now);
    case CellClass::kRing:
      query.algorithm = Algorithm::kSlidingWindowStrict;
      query.ask = {.capacity = kMaxCount, .cost = 0};
      peek = RingCell(tuple).decide(query, Effect::kPeek);
      break;
    case CellClass::kLog:
      query.algorithm = Algorithm::kSlidingLog;
      query.ask = {.capacity = get(tuple.slot->hot[4]), .cost = 0};
      peek = LogCell(tuple).decide(query, Effect::kPeek);
      break;
    case CellClass::kWindow: return kMaxCount;
  }
  if (peek.status != DecisionStatus::kDecided) return kMaxCount;
  return base::saturating_sub(query.ask.capacity, peek.decision.remaining);
}

Count remaining_of(const Tuple& tuple, WallTime now) {
  return remaining_of(tuple, now, TupleMeta{get(tuple.cold->meta)}.limit());
}

Count remaining_of(const Tuple& tuple, WallTime now, Count limit) {
  const TupleMeta meta{get(tuple.cold->meta)};
  const CellDecision result = WindowCells(tuple).decide({.now = now,
                                                         .algorithm = meta.algorithm(),
                                                         .duration = tuple.slot->header.duration(),
                                                         .limit = limit,
                                                         .ask = {.capacity = limit, .cost = 0}},
                                                        Effect::kPeek);
  return result.status == DecisionStatus::kDecided ? result.decision.remaining : 0;
}

uint64_t usage_share(const Tuple& tuple, WallTime now) {
  if (tuple.slot->header.cell_class() != CellClass::kWindow) return kFullUsage;
  const Count limit = std::max<Count>(1, TupleMeta{get(tuple.cold->meta)}.limit());
  return base::mul_div(base::saturating_sub(limit, remaining_of(tuple, now)), kFullUsage, limit);
}

std::optional<FrozenWords> freeze(const Tuple& tuple) {
  if (tentative_amount(tuple.cold->tentative) != 0) return std::nullopt;
  if (tuple.slot->hot[1].load(std::memory_order_acquire) == kFrozen) return std::nullopt;
  FrozenWords frozen;
  switch (tuple.slot->header.cell_class()) {
    case CellClass::kWindow:
      frozen.words[0] = tuple.slot->hot[1].exchange(kFrozen, std::memory_order_seq_cst);
      frozen.words[1] = tuple.slot->hot[2].exchange(kFrozen, std::memory_order_seq_cst);
      break;
    case CellClass::kBacklog:
      frozen.words[0] = tuple.slot->hot[1].exchange(kFrozen, std::memory_order_seq_cst);
      break;
    case CellClass::kRing:
    case CellClass::kLog: {
      const auto head = freeze_head(tuple.slot->hot[1]);
      if (!head) return std::nullopt;
      frozen.words[0] = *head;
      break;
    }
  }
  // The cost of a batch that charged before the freeze is in `tentative` (sequentially consistent
  // load). A batch that comes later fails to charge and finds the tuple again.
  if (tentative_seq_cst(tuple.cold->tentative) != 0) {
    thaw(tuple, frozen);
    return std::nullopt;
  }
  return frozen;
}

void thaw(const Tuple& tuple, const FrozenWords& frozen) {
  tuple.slot->hot[1].store(frozen.words[0], std::memory_order_seq_cst);
  if (tuple.slot->header.cell_class() == CellClass::kWindow) {
    tuple.slot->hot[2].store(frozen.words[1], std::memory_order_seq_cst);
  }
}

bool fully_acked(const Tuple& tuple) {
  return fully_acked(tuple, words_of(tuple));
}

bool fully_acked(const Tuple& tuple, const FrozenWords& frozen) {
  if (tuple.slot->header.cell_class() != CellClass::kWindow) return false;
  for (int parity = 0; parity < 2; ++parity) {
    const Tagged own{frozen.words[parity]};
    const Tagged acked{tuple.cold->acked[parity].load(std::memory_order_acquire)};
    if (own.word == kFrozen) return false;
    if (own.count() > (own.tag() == acked.tag() ? acked.count() : 0)) return false;
  }
  return true;
}

}  // namespace weir::memory
