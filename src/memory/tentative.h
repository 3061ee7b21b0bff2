// Cost that a batch has added to a count but may still refund.
//
// A batch adds its cost to `tentative` first and to the count second, and refunds it in the
// opposite order. So at any instant `tentative` includes all tentative cost in the count. Replay
// and publish report the settled part only: the count minus `tentative`. The word contains a change
// counter: if it is the same before and after the count was read, no batch started or ended in
// between and the difference is exact.
//
//   bits 44-63  changes, modulo 2^20      bits 0-43  amount

#pragma once

#include <optional>

#include "memory/tagged_word.h"

namespace weir::memory {

[[nodiscard]] inline Count tentative_amount(const Word& tentative) {
  return tentative.load(std::memory_order_acquire) & kCountMask;
}

// For a caller that has just frozen the count: sees the tentative cost of every charge before that.
[[nodiscard]] inline Count tentative_seq_cst(const Word& tentative) {
  return tentative.load(std::memory_order_seq_cst) & kCountMask;
}

inline void add_tentative(Word& tentative, Count cost) {
  uint64_t seen = tentative.load(std::memory_order_relaxed);
  while (!tentative.compare_exchange_weak(seen, seen + (uint64_t{1} << kCountBits) + cost,
                                          std::memory_order_seq_cst, std::memory_order_relaxed)) {
  }
}

inline void remove_tentative(Word& tentative, Count cost) {
  uint64_t seen = tentative.load(std::memory_order_relaxed);
  while (!tentative.compare_exchange_weak(seen, seen + (uint64_t{1} << kCountBits) - cost,
                                          std::memory_order_seq_cst, std::memory_order_relaxed)) {
  }
}

// A tagged count minus its tentative part. None, if batches changed it during kAttempts reads: the
// caller tries again in its next round.
[[nodiscard]] inline std::optional<Tagged> settled(const Word& count, const Word& tentative) {
  constexpr int kAttempts = 64;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const uint64_t before = tentative.load(std::memory_order_seq_cst);
    const Tagged seen{count.load(std::memory_order_seq_cst)};
    if (tentative.load(std::memory_order_seq_cst) != before) continue;
    if (seen.word == kFrozen) return std::nullopt;
    const Count amount = mutated(Mutation::kTentativeAcked) ? 0 : before & kCountMask;
    return Tagged{seen.word - (amount < seen.count() ? amount : seen.count())};
  }
  return std::nullopt;
}

}  // namespace weir::memory
