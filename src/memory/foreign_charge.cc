#include "memory/foreign_charge.h"

#include <algorithm>

#include "base/wide.h"
#include "memory/backlog_cell.h"
#include "memory/head_lock.h"
#include "memory/log_cell.h"
#include "memory/ring_cell.h"

namespace weir::memory {
namespace {

template <typename Cell>
DecisionStatus charge_held(const Cell& cell, const Query& query) {
  int spins = kHeadLockSpins;
  if (try_lock_head(cell.head(), spins) != HeadLock::kLocked) return DecisionStatus::kRetry;
  const bool fits = cell.peek_locked(query).status == DecisionStatus::kDecided;
  if (fits) cell.charge_locked(query);
  unlock_head(cell.head());
  return fits ? DecisionStatus::kDecided : DecisionStatus::kRebuild;
}

}  // namespace

bool ForeignCharge::is_noted(int64_t sequence) const {
  const uint64_t word = charged(sequence).load(std::memory_order_acquire);
  return (word & kNoted) != 0 && Tagged{word}.is_of(sequence);
}

// Returns by how much the charged count of the window was raised.
Count ForeignCharge::raise(int64_t sequence, Count count) const {
  Word& word = charged(sequence);
  uint64_t seen = word.load(std::memory_order_acquire);
  for (;;) {
    const int64_t ahead = seen == 0 ? -1 : Tagged{seen}.ahead_of(sequence);
    const Count before = ahead == 0 ? Tagged{seen}.count() : 0;
    if (ahead > 0 || (ahead == 0 && before >= count)) return 0;
    if (mutated(Mutation::kForeignChargedAgain)) return count;
    const uint64_t wanted = Tagged::make(sequence, count).word | kNoted;
    if (word.compare_exchange_weak(seen, wanted, std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return count - before;
    }
  }
}

void ForeignCharge::lower(int64_t sequence, Count units) const {
  Word& word = charged(sequence);
  uint64_t seen = word.load(std::memory_order_acquire);
  while (Tagged{seen}.is_of(sequence) && Tagged{seen}.count() >= units) {
    if (word.compare_exchange_weak(seen, seen - units, std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return;
    }
  }
}

ForeignCharge::Claim ForeignCharge::claim(int64_t sequence, Count current, Count last) const {
  const bool first = is_first(sequence);
  return {.current = raise(sequence, current), .last = raise(sequence - 1, last), .first = first};
}

void ForeignCharge::give_back(int64_t sequence, const Claim& claim, Count units) const {
  const Count of_current = std::min(units, claim.current);
  const Count of_last = std::min(units - of_current, claim.last);
  if (of_current > 0) lower(sequence, of_current);
  if (of_last > 0) lower(sequence - 1, of_last);
}

DecisionStatus charge_all(const Tuple& tuple, const Query& query, Count units) {
  Query whole = query;
  whole.bound = {};
  whole.ask.cost = units;
  switch (tuple.slot->header.cell_class()) {
    case CellClass::kBacklog: return BacklogCell(tuple).charge_all(whole);
    case CellClass::kRing: return charge_held(RingCell(tuple), whole);
    case CellClass::kLog:
      // Older units would not count any more.
      whole.ask.cost = std::min(units, query.ask.capacity);
      return charge_held(LogCell(tuple), whole);
    case CellClass::kWindow: break;
  }
  return DecisionStatus::kDecided;
}

}  // namespace weir::memory
