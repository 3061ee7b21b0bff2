// Cost that a batch has put into a count but may yet take back.
//
// A batch adds its cost to `tentative` first and to the count second, and takes it back
// in the opposite order, so at any instant the count holds no doubtful cost that
// `tentative` does not. Whoever tells others (replay, publish) reports the settled part
// only. The word carries a change counter: if it is the same before and after the count
// was read, no batch began or ended in between and the difference is exact.
//
//   bits 44-63  changes, modulo 2^20      bits 0-43  amount

#pragma once

#include <optional>

#include "memory/words.h"

namespace weir::memory {

[[nodiscard]] inline Count tentative_amount(const Word& tentative) {
  return tentative.load(std::memory_order_acquire) & kCountMask;
}

// The same for who has just taken the count away: if it was charged before, its doubtful part is
// seen.
[[nodiscard]] inline Count tentative_in_order(const Word& tentative) {
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

// A tagged count less its doubtful part. Nothing, if batches kept coming and going for
// `kTurns` looks: the caller leaves the cell for its next round.
[[nodiscard]] inline std::optional<Tagged> settled(const Word& count, const Word& tentative) {
  constexpr int kTurns = 64;
  for (int turn = 0; turn < kTurns; ++turn) {
    const uint64_t before = tentative.load(std::memory_order_seq_cst);
    const Tagged seen{count.load(std::memory_order_seq_cst)};
    if (tentative.load(std::memory_order_seq_cst) != before) continue;
    if (seen.word == kGone) return std::nullopt;
    const Count doubtful = mutated(Mutation::kTentativeAcked) ? 0 : before & kCountMask;
    return Tagged{seen.word - (doubtful < seen.count() ? doubtful : seen.count())};
  }
  return std::nullopt;
}

}  // namespace weir::memory
