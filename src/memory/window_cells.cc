#include "memory/window_cells.h"

#include <algorithm>

namespace weir::memory {

CellDecision WindowCells::decide(const Query& query, Effect effect) const {
  CellDecision result;
  decide(query, effect, result);
  return result;
}

// Denies a request that the counts admit but the bound on the own count does not.
void WindowCells::apply_own_bound(Count own_remaining, const Query& query,
                                  algorithms::Decision& decision) {
  if (decision.admitted() && query.ask.cost > own_remaining) {
    decision.outcome = Outcome::kDenied;
    decision.remaining = own_remaining;
    decision.retry_at = query.now + query.bound.retry_after;
    return;
  }
  if (!query.bound.reported) return;
  const Count used = decision.admitted() ? query.ask.cost : 0;
  decision.remaining = std::min(decision.remaining, base::saturating_sub(own_remaining, used));
}

void WindowCells::refund(int64_t sequence, Count cost) const {
  uint64_t seen = own(sequence).load(std::memory_order_acquire);
  for (;;) {
    if (seen == kFrozen) {
      // Another thread is freezing the slot and will see the tentative cost.
      cpu_relax();
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

namespace {

// The highest bit of a told count: the origin has refused a request in the window. No limit is so
// large.
constexpr Count kRefusedBit = Count{1} << (kCountBits - 1);
static_assert(2 * kMaxLimit < kRefusedBit);

}  // namespace

WindowCells::Told WindowCells::told(int64_t sequence) const {
  const uint64_t word = slot_.hot[6].load(std::memory_order_acquire);
  if (word == 0) return {};
  const Tagged tagged{word};
  switch (tagged.ahead_of(sequence)) {
    case 0:
      return {.own = tagged.count() & ~kRefusedBit,
              .refused = (tagged.count() & kRefusedBit) != 0,
              .strict = tagged.closed(),
              .noted = true};
    // A window begins as the last one ended.
    case -1: return {.strict = tagged.closed()};
    default: return {};
  }
}

void WindowCells::note_told(int64_t sequence, Count own, std::optional<Refusals> refusals) const {
  Word& word = slot_.hot[6];
  uint64_t seen = word.load(std::memory_order_acquire);
  for (;;) {
    const Tagged before{seen};
    const int64_t ahead = seen == 0 ? -kTagReach : before.ahead_of(sequence);
    if (ahead > 0) return;
    if (mutated(Mutation::kRefusalsPrivate)) refusals.reset();
    const bool was_strict = ahead >= -1 && before.closed();
    // A refusal stays: another reply may be older.
    const bool refused =
        (ahead == 0 && (before.count() & kRefusedBit) != 0) || (refusals && refusals->current);
    const bool strict =
        refused || (ahead == 0 && was_strict) || (refusals ? refusals->last : was_strict);
    const Count known = ahead == 0 ? before.count() & ~kRefusedBit : 0;
    const Count count = std::min(std::max(known, own), kRefusedBit - 1);
    const uint64_t noted = Tagged::make(sequence, count | (refused ? kRefusedBit : 0)).word |
                           (strict ? kClosedBit : uint64_t{0});
    // A failed iteration means that another read was noted.
    if (word.compare_exchange_weak(seen, noted, std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return;
    }
  }
}

// Closes the own word of a window. `word` is its current value, of this window or an older one, and
// receives the closed value. False: the word was frozen or has changed.
bool WindowCells::close(int64_t sequence, uint64_t& word) const {
  const bool charged = (word ^ tag_bits(sequence)) <= kCountMask;
  const uint64_t closed = (charged ? word : tag_bits(sequence)) | kClosedBit;
  if (!own(sequence).compare_exchange_strong(word, closed, std::memory_order_relaxed)) return false;
  word = closed;
  return true;
}

void WindowCells::clear_old_words(int64_t newest) const {
  for (const int64_t sequence : {newest, newest - 1}) {
    for (Word* word : {&own(sequence), &others(sequence), &siblings(sequence), &foreign(sequence),
                       &acked(sequence)}) {
      clear_if_older(*word, newest, 1);
    }
  }
  clear_if_older(slot_.hot[6], newest, 1);
}

bool WindowCells::raise_siblings(int64_t sequence, Count count) const {
  if (!accepts_counts_of(sequence)) return false;
  advance(sequence);
  const bool changed = raise_tagged(siblings(sequence), sequence, count);
  raise_others(sequence);
  return changed;
}

bool WindowCells::raise_foreign(int64_t sequence, Count count) const {
  if (!accepts_counts_of(sequence)) return false;
  advance(sequence);
  const bool changed = raise_tagged(foreign(sequence), sequence, count);
  raise_others(sequence);
  return changed;
}

// Each part is raised before the sum is computed, so the last thread sees both parts. A thread
// whose counts changed nothing raises the sum, too: the thread that changed them may not have done
// so yet, and the caller marks the tuple fresh after this.
void WindowCells::raise_others(int64_t sequence) const {
  const Count sum = Tagged{siblings(sequence).load(std::memory_order_seq_cst)}.count_of(sequence) +
                    Tagged{foreign(sequence).load(std::memory_order_seq_cst)}.count_of(sequence);
  raise_tagged(others(sequence), sequence, sum);
}

}  // namespace weir::memory
