// The 64-bit words of cells: a count and the tag of its window.
//
// Count and tag are in one word, so that one compare-and-swap checks both: an admission can never
// change the count of another window, and a new window needs no reset, because a count with another
// tag is 0.
//
//   bit 63      closed: accepts no more admissions
//   bits 44-62  tag: the window's sequence modulo 2^19
//   bits 0-43   count
//
// 44 bits: the own count of a node is at most a limit plus the tentative cost of batches,
// 2 x 10^12 < 2^41; counts received from others are capped at kMaxCount. 19 bits: tags compare
// exactly as signed differences while they are less than 2^18 windows apart. A tuple that was not
// used for 2^17 windows is rebuilt (kTagReach); a tuple in use clears its old words each time its
// newest window enters another block of 2^16 (kTagBlockBits). So no word of a tuple is ever 2^18
// windows behind the newest, however long the tuple exists.

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

static_assert(2 * kMaxLimit < (Count{1} << kCountBits));

// The value of a word whose slot was frozen. No count equals it, because counts are capped at
// kMaxCount, so every compare-and-swap on it fails.
inline constexpr uint64_t kFrozen = ~uint64_t{0};
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
  // The count if it belongs to this window, else 0.
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

// The tag of a window at its position in a word; for decisions without unpacking.
[[nodiscard]] constexpr uint64_t tag_bits(int64_t sequence) {
  return (static_cast<uint64_t>(sequence) & kTagMask) << kCountBits;
}

// The count of a word if it is open and belongs to the window with these tag bits, else 0.
[[nodiscard]] constexpr Count open_count(uint64_t word, uint64_t bits) {
  const uint64_t rest = word ^ bits;
  return rest <= kCountMask ? rest : 0;
}

// The current count of a word for this window.
[[nodiscard]] inline Count count_in(const Word& word, int64_t sequence) {
  return Tagged{word.load(std::memory_order_acquire)}.count_of(sequence);
}
// For a caller that has just written another word: either it sees a count that was raised
// meanwhile, or the thread that raised the count sees what the caller wrote. Both sides, write and
// load, must be sequentially consistent for that.
[[nodiscard]] inline Count count_in_seq_cst(const Word& word, int64_t sequence) {
  return Tagged{word.load(std::memory_order_seq_cst)}.count_of(sequence);
}

// Merges a count by max into the word of a window. A word of an older window is replaced; a count
// for an older window is ignored. Returns whether the word changed. Sequentially consistent: the
// caller reads a watch word next (count_in_seq_cst).
inline bool raise_tagged(Word& word, int64_t sequence, Count count) {
  uint64_t seen = word.load(std::memory_order_acquire);
  for (;;) {
    const Tagged now{seen};
    if (seen == kFrozen) return false;
    const int64_t ahead = seen == 0 ? -1 : now.ahead_of(sequence);
    const bool adds = mutated(Mutation::kAddInsteadOfMax) && ahead == 0 && count > 0;
    const Count merged = adds ? now.count() + count : count;
    if (ahead > 0 || (ahead == 0 && now.count() >= merged)) return false;
    // A failed iteration means that another thread made progress; values only grow, up to
    // kMaxCount.
    if (word.compare_exchange_weak(seen, Tagged::make(sequence, merged).word,
                                   std::memory_order_seq_cst, std::memory_order_acquire)) {
      return true;
    }
  }
}

// Raises a number without a tag; returns whether it changed.
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

// Whether a later sequence is in another block. Before a tuple enters it, words that are more than
// `kept` windows old are cleared: see above.
[[nodiscard]] constexpr bool enters_another_block(int64_t from, int64_t to) {
  return from >> kTagBlockBits != to >> kTagBlockBits;
}
inline void clear_if_older(Word& word, int64_t newest, int64_t kept) {
  uint64_t seen = word.load(std::memory_order_acquire);
  if (seen == 0 || seen == kFrozen || Tagged{seen}.ahead_of(newest) >= -kept) return;
  // If it fails, another thread wrote a newer word.
  word.compare_exchange_strong(seen, 0, std::memory_order_acq_rel, std::memory_order_relaxed);
}

// A pause in a loop that waits for the next few instructions of another thread.
inline void cpu_relax() {
#if defined(WEIR_MUTATIONS)
  base::while_waiting();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#elif defined(__x86_64__)
  asm volatile("pause" ::: "memory");
#endif
}

// After a failed compare-and-swap: leaves the cache line to the winner for its next admissions, for
// one microsecond (Neoverse N1) to three (Cascade Lake). Two threads that take the line from each
// other immediately reach half the throughput of one thread; with this, six to nine tenths.
[[gnu::noinline, gnu::cold]] inline void back_off() {
#if !defined(WEIR_MUTATIONS)  // it waits for no other thread
  for (int spin = 0; spin < 64; ++spin) cpu_relax();
#endif
}

}  // namespace weir::memory
