#include "memory/ring_cell.h"

namespace weir::memory {

using algorithms::kRingCells;
using algorithms::kRingParts;

namespace {

// Time does not run backwards within a tuple; more than a window back means a clock set back.
bool within_reach(int64_t newest, int64_t sequence) {
  return newest - sequence <= kRingParts && sequence - newest < kTagReach;
}

}  // namespace

bool RingCell::fits(const Query& query) const {
  const auto at = algorithms::position_of(query.now, algorithms::ring_width(query.duration));
  return within_reach(static_cast<int64_t>(slot_.hot[0].load(std::memory_order_acquire)),
                      at.sequence);
}

RingCell::View RingCell::view(WallTime now, Millis duration, uint64_t head) const {
  // A thread raises `newest` before it overwrites a start: if `newest` did not change, all starts
  // that were read belong to this window.
  for (;;) {
    const uint64_t newest = slot_.hot[0].load(std::memory_order_seq_cst);
    const View seen = view_from(static_cast<int64_t>(newest), now, duration, head);
    if (slot_.hot[0].load(std::memory_order_seq_cst) == newest) return seen;
  }
}

RingCell::View RingCell::view_from(int64_t newest, WallTime now, Millis duration,
                                   uint64_t head) const {
  View view;
  view.at = algorithms::position_of(now, algorithms::ring_width(duration));
  view.within_reach = within_reach(newest, view.at.sequence);
  if (!view.within_reach) return view;
  if (newest > view.at.sequence) {
    view.at = {.sequence = newest, .offset = Millis(0), .width = view.at.width};
  }
  view.total = Tagged{head}.count();
  Count upper = view.total;
  for (int i = kRingCells - 1; i >= 0; --i) {
    const int64_t sequence = view.at.sequence - (kRingCells - 1) + i;
    // A start written ahead of the head is not valid yet.
    if (Tagged{head}.ahead_of(sequence) < 0) continue;
    const Tagged base{buffer_.base[sequence & (kRingBases - 1)].load(std::memory_order_seq_cst)};
    if (base.word == 0 || !base.is_of(sequence)) continue;
    view.counts[i] = (upper - base.count()) & kCountMask;
    upper = base.count();
  }
  return view;
}

// Writes the start of the sub-cell that is about to be charged; of the values of several threads
// the lowest remains.
void RingCell::open(const View& view) const {
  const auto newest = static_cast<int64_t>(slot_.hot[0].load(std::memory_order_relaxed));
  if (newest < view.at.sequence && enters_another_block(newest, view.at.sequence)) {
    for (Word& old : buffer_.base) clear_if_older(old, newest, kRingBases);
  }
  raise_number(slot_.hot[0], static_cast<uint64_t>(view.at.sequence));
  Word& base = buffer_.base[view.at.sequence & (kRingBases - 1)];
  const uint64_t wanted = Tagged::make(view.at.sequence, view.total).word;
  uint64_t seen = base.load(std::memory_order_acquire);
  while (seen == 0 || !Tagged{seen}.is_of(view.at.sequence) || seen > wanted) {
    if (base.compare_exchange_weak(seen, wanted, std::memory_order_seq_cst,
                                   std::memory_order_acquire)) {
      return;
    }
  }
}

CellDecision RingCell::decide(const Query& query, Effect effect) const {
  const bool consumes = effect == Effect::kConsume && query.ask.cost > 0;
  CellDecision result;
  int spins = 0;
  uint64_t head = this->head().load(std::memory_order_acquire);
  // A failed iteration means that another thread was admitted or a sub-cell ended; spins on a
  // locked head are bounded.
  for (;;) {
    if (head == kFrozen) return {.status = DecisionStatus::kRetry};
    const View view = this->view(query.now, query.duration, head & ~kClosedBit);
    if (consumes && !view.within_reach) return {.status = DecisionStatus::kRebuild};
    result.decision = algorithms::decide_ring(view.at, view.counts, query.ask);
    result.evidence.own = algorithms::ring_estimate(view.counts);
    const bool charges = consumes && result.decision.admitted();
    if (charges && is_locked(head)) {
      if (++spins > kHeadLockSpins) {
        deny_for_one_tick(query, result.decision);
        return result;
      }
      cpu_relax();
      head = this->head().load(std::memory_order_acquire);
      continue;
    }
    if (charges) {
      if (!Tagged{head}.is_of(view.at.sequence)) open(view);
      const uint64_t charged =
          Tagged::make(view.at.sequence, 0).word | ((view.total + query.ask.cost) & kCountMask);
      if (this->head().compare_exchange_weak(head, charged, std::memory_order_seq_cst,
                                             std::memory_order_acquire)) {
        return result;
      }
      back_off();
      head = this->head().load(std::memory_order_acquire);
      continue;
    }
    // The starts were read after the head: if the head is unchanged, they belong together.
    const uint64_t again = this->head().load(std::memory_order_seq_cst);
    if (again == head) return result;
    head = again;
  }
}

CellDecision RingCell::peek_locked(const Query& query) const {
  const uint64_t head = this->head().load(std::memory_order_acquire) & ~kClosedBit;
  const View view = this->view(query.now, query.duration, head);
  if (!view.within_reach) return {.status = DecisionStatus::kRebuild};
  CellDecision result;
  result.decision = algorithms::decide_ring(view.at, view.counts, query.ask);
  result.evidence.own = algorithms::ring_estimate(view.counts);
  return result;
}

void RingCell::charge_locked(const Query& query) const {
  const uint64_t head = this->head().load(std::memory_order_acquire) & ~kClosedBit;
  const View view = this->view(query.now, query.duration, head);
  if (!Tagged{head}.is_of(view.at.sequence)) open(view);
  const Count total = (view.total + query.ask.cost) & kCountMask;
  this->head().store((Tagged::make(view.at.sequence, 0).word | total) | kClosedBit,
                     std::memory_order_seq_cst);
}

}  // namespace weir::memory
