// The 64-bit words that cells are made of.
//
// A count is kept together with a tag of the window it belongs to, in one word, so that
// one compare-and-swap decides both: an admission can never land in another window's
// count, and a cell needs no step to start a new window, because a count with the wrong
// tag is nothing.
//
//   bit 63      closed: takes no more admissions
//   bits 44-62  tag: the window's sequence modulo 2^19
//   bits 0-43   count
//
// 44 bits: a node's own count is at most a limit plus what batches hold tentatively,
// 2 x 10^12 < 2^41; counts heard from others are cut at the largest. 19 bits: tags compare
// exactly as signed differences while they are less than 2^18 windows apart. A tuple untouched
// for 2^17 windows is begun anew (kTagReach); one that is in use forgets its old words each time
// its newest window enters another block of 2^16 (kTagBlockBits). So no word of a tuple
// is ever 2^18 windows behind the newest, however long the tuple lives.

#pragma once

#include <atomic>
#include <cstdint>

#include "base/atomic.h"
#include "base/mutation.h"
#include "weir/request.h"

namespace weir::memory {

using base::mutated;
using base::Mutation;

using Word = base::Atomic<uint64_t>;

inline constexpr int kCountBits = 44;
inline constexpr int kTagBits = 19;
inline constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
inline constexpr uint64_t kTagMask = (uint64_t{1} << kTagBits) - 1;
inline constexpr uint64_t kClosedBit = uint64_t{1} << 63;
inline constexpr int64_t kTagReach = int64_t{1} << (kTagBits - 2);
inline constexpr int kTagBlockBits = kTagBits - 3;
static_assert(kTagReach + (int64_t{1} << kTagBlockBits) + 2 < int64_t{1} << (kTagBits - 1));

static_assert(2 * kMaxLimit < (int64_t{1} << kCountBits));

// Stands in a word whose slot is being taken away: equal to no count, as counts are
// cut at kMaxCount, so every compare-and-swap on it fails.
inline constexpr uint64_t kGone = ~uint64_t{0};
inline constexpr Count kMaxCount = kCountMask - 1;

struct Tagged {
  uint64_t word = 0;

  static constexpr Tagged make(int64_t sequence, Count count) {
    return {(static_cast<uint64_t>(sequence) & kTagMask) << kCountBits |
            (count < kMaxCount ? count : kMaxCount)};
  }

  [[nodiscard]] constexpr Count count() const { return word & kCountMask; }
  [[nodiscard]] constexpr bool closed() const { return (word & kClosedBit) != 0; }
  [[nodiscard]] constexpr uint64_t tag() const { return (word >> kCountBits) & kTagMask; }

  [[nodiscard]] constexpr bool is_of(int64_t sequence) const {
    return tag() == (static_cast<uint64_t>(sequence) & kTagMask);
  }
  // The count if it is of this window, else nothing.
  [[nodiscard]] constexpr Count count_of(int64_t sequence) const {
    return is_of(sequence) ? count() : 0;
  }
  // Sequences by which this word is ahead of `sequence`; exact if they are less than 2^18.
  [[nodiscard]] constexpr int64_t ahead_of(int64_t sequence) const {
    const uint64_t difference = (tag() - static_cast<uint64_t>(sequence)) & kTagMask;
    return difference > kTagMask / 2 ? static_cast<int64_t>(difference) - (int64_t{1} << kTagBits)
                                     : static_cast<int64_t>(difference);
  }
};

// The tag of a window as it stands in a word; for deciding without unpacking.
[[nodiscard]] constexpr uint64_t tag_bits(int64_t sequence) {
  return (static_cast<uint64_t>(sequence) & kTagMask) << kCountBits;
}

// The count of a word if it is open and of the window with these tag bits, else 0.
[[nodiscard]] constexpr Count open_count(uint64_t word, uint64_t bits) {
  const uint64_t rest = word ^ bits;
  return rest <= kCountMask ? rest : 0;
}

// What a word holds of this window now.
[[nodiscard]] inline Count count_in(const Word& word, int64_t sequence) {
  return Tagged{word.load(std::memory_order_acquire)}.count_of(sequence);
}
// The same for who has just written elsewhere that it is about to look: either it sees a count
// that was raised meanwhile, or who raised it sees what was written. Both sides have to be
// sequentially consistent for that, the write and the look.
[[nodiscard]] inline Count count_in_order(const Word& word, int64_t sequence) {
  return Tagged{word.load(std::memory_order_seq_cst)}.count_of(sequence);
}

// Merges by max into the word of a window; a word of an older window is replaced, news
// for an older one is too late and ignored. Returns whether the word changed. Sequentially
// consistent: who raises a count looks at a mark next (count_in_order).
inline bool raise_tagged(Word& word, int64_t sequence, Count count) {
  uint64_t seen = word.load(std::memory_order_acquire);
  for (;;) {
    const Tagged now{seen};
    if (seen == kGone) return false;
    const int64_t ahead = seen == 0 ? -1 : now.ahead_of(sequence);
    const bool adds = mutated(Mutation::kAddInsteadOfMax) && ahead == 0 && count > 0;
    const Count merged = adds ? now.count() + count : count;
    if (ahead > 0 || (ahead == 0 && now.count() >= merged)) return false;
    // Each failed turn is another's progress; values only grow and are cut at kMaxCount.
    if (word.compare_exchange_weak(seen, Tagged::make(sequence, merged).word,
                                   std::memory_order_seq_cst, std::memory_order_acquire)) {
      return true;
    }
  }
}

// Raises a plain number; returns whether it changed.
inline bool raise_number(Word& word, uint64_t value) {
  uint64_t seen = word.load(std::memory_order_acquire);
  while (seen < value) {
    if (word.compare_exchange_weak(seen, value, std::memory_order_seq_cst,
                                   std::memory_order_acquire)) {
      return true;
    }
  }
  return false;
}

// Whether the step from one sequence to a later one enters another block, before which words
// older than `kept` windows are forgotten: see above.
[[nodiscard]] constexpr bool enters_another_block(int64_t from, int64_t to) {
  return from >> kTagBlockBits != to >> kTagBlockBits;
}
inline void forget_if_older(Word& word, int64_t newest, int64_t kept) {
  uint64_t seen = word.load(std::memory_order_acquire);
  if (seen == 0 || seen == kGone || Tagged{seen}.ahead_of(newest) >= -kept) return;
  // If it fails, someone wrote a newer one.
  word.compare_exchange_strong(seen, 0, std::memory_order_acq_rel, std::memory_order_relaxed);
}

// A polite pause in a loop that waits for another thread's next few instructions.
inline void relax() {
#if defined(WEIR_MUTATIONS)
  base::while_waiting();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#elif defined(__x86_64__)
  asm volatile("pause" ::: "memory");
#endif
}

// For who has lost a compare-and-swap: leaves the winner the cache line for its next admissions,
// for one microsecond (Neoverse N1) to three (Cascade Lake). Two threads that take the line from
// each other at once do half of what one does alone; this way, six to nine tenths.
[[gnu::noinline, gnu::cold]] inline void step_aside() {
#if !defined(WEIR_MUTATIONS)  // it waits for nobody
  for (int turn = 0; turn < 64; ++turn) relax();
#endif
}

}  // namespace weir::memory
