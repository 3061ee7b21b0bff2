#include "memory/window_cells.h"

#include <algorithm>

namespace weir::memory {

CellDecision WindowCells::decide(const Query& query, Effect effect) const {
  CellDecision step;
  decide(query, effect, step);
  return step;
}

// What passes by the counts, but not by the bound on our own.
void WindowCells::keep_within(Count own_room, const Query& query, algorithms::Decision& decision) {
  if (decision.admitted() && query.ask.cost > own_room) {
    decision.outcome = Outcome::kDenied;
    decision.remaining = own_room;
    decision.retry_at = query.now + query.bound.again;
    return;
  }
  const Count used = decision.admitted() ? query.ask.cost : 0;
  decision.remaining = std::min(decision.remaining, base::saturating_sub(own_room, used));
}

void WindowCells::take_back(int64_t sequence, Count cost) const {
  uint64_t seen = own(sequence).load(std::memory_order_acquire);
  for (;;) {
    if (seen == kGone) {
      // Someone is trying to take the slot away and will see our tentative cost.
      relax();
      seen = own(sequence).load(std::memory_order_acquire);
      continue;
    }
    if (!Tagged{seen}.is_of(sequence)) return;
    if (own(sequence).compare_exchange_weak(seen, seen - cost, std::memory_order_seq_cst,
                                            std::memory_order_acquire)) {
      return;
    }
  }
}

// Closes the own word of a window that was found to be `word`, of this window or an older one;
// leaves there what it held. False: it was taken away, or has changed.
bool WindowCells::close(int64_t sequence, uint64_t& word) const {
  const bool charged = (word ^ tag_bits(sequence)) <= kCountMask;
  const uint64_t closed = (charged ? word : tag_bits(sequence)) | kClosedBit;
  if (!own(sequence).compare_exchange_strong(word, closed, std::memory_order_relaxed)) return false;
  word = closed;
  return true;
}

void WindowCells::forget_old_words(int64_t newest) const {
  for (const int64_t sequence : {newest, newest - 1}) {
    for (Word* word : {&own(sequence), &others(sequence), &siblings(sequence), &foreign(sequence),
                       &acked(sequence)}) {
      forget_if_older(*word, newest, 1);
    }
  }
}

bool WindowCells::raise_siblings(int64_t sequence, Count count) const {
  if (!takes_news_of(sequence)) return false;
  advance(sequence);
  const bool news = raise_tagged(siblings(sequence), sequence, count);
  raise_others(sequence);
  return news;
}

bool WindowCells::raise_foreign(int64_t sequence, Count count) const {
  if (!takes_news_of(sequence)) return false;
  advance(sequence);
  const bool news = raise_tagged(foreign(sequence), sequence, count);
  raise_others(sequence);
  return news;
}

// Each part is raised before the sum is taken, so whoever comes last sees both. Whoever brings no
// news raises the sum too: another who brought the same may not have come so far, and the tuple is
// called fresh after this.
void WindowCells::raise_others(int64_t sequence) const {
  const Count sum = Tagged{siblings(sequence).load(std::memory_order_seq_cst)}.count_of(sequence) +
                    Tagged{foreign(sequence).load(std::memory_order_seq_cst)}.count_of(sequence);
  raise_tagged(others(sequence), sequence, sum);
}

}  // namespace weir::memory
