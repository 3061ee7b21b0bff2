// Metadata of a window tuple besides its counts, in one word.
//
//   bits 0-39   the limit last requested
//   bit 40      requested as a fixed window: the previous window does not count
//   bits 41-63  when the previous window was last read from the origin, in steps of 32 ms; the
//               value wraps after three days, so use it only for tuples that were read recently
//
// Safe from any thread.

#pragma once

#include "memory/tagged_word.h"
#include "weir/time.h"

namespace weir::memory {

struct TupleMeta {
  static constexpr int kLimitBits = 40;
  static constexpr int kStepShift = 5;  // 32 ms
  static constexpr uint64_t kLimitMask = (uint64_t{1} << kLimitBits) - 1;
  static constexpr uint64_t kFixedBit = uint64_t{1} << kLimitBits;
  static constexpr uint64_t kAskMask = kLimitMask | kFixedBit;
  static_assert(kMaxLimit < (Count{1} << kLimitBits));

  uint64_t word = 0;

  [[nodiscard]] static constexpr uint64_t ask_bits(Count limit, Algorithm algorithm) {
    return (limit & kLimitMask) | (algorithm == Algorithm::kFixedWindow ? kFixedBit : 0);
  }
  [[nodiscard]] constexpr Count limit() const { return word & kLimitMask; }
  [[nodiscard]] constexpr Algorithm algorithm() const {
    return (word & kFixedBit) != 0 ? Algorithm::kFixedWindow : Algorithm::kSlidingWindow;
  }

  // The time since the previous window was read; rounded up, never too short.
  [[nodiscard]] constexpr Millis last_read_ago(MonoTime now) const {
    const uint64_t ago = (steps(now) - (word >> (kLimitBits + 1))) & kStepsMask;
    return Millis(static_cast<int64_t>((ago + 1) << kStepShift));
  }

  [[nodiscard]] static constexpr uint64_t steps(MonoTime time) {
    return static_cast<uint64_t>(time.time_since_epoch() / Millis(1)) >> kStepShift & kStepsMask;
  }

 private:
  static constexpr uint64_t kStepsMask = (uint64_t{1} << (63 - kLimitBits)) - 1;
};

// Writes `bits` where `mask` is set.
inline void store_bits(Word& meta, uint64_t mask, uint64_t bits) {
  uint64_t seen = meta.load(std::memory_order_relaxed);
  while ((seen & mask) != bits &&
         !meta.compare_exchange_weak(seen, (seen & ~mask) | bits, std::memory_order_relaxed)) {
  }
}

inline void record_ask(Word& meta, Count limit, Algorithm algorithm) {
  store_bits(meta, TupleMeta::kAskMask, TupleMeta::ask_bits(limit, algorithm));
}

inline void record_last_read(Word& meta, MonoTime when) {
  store_bits(meta, ~TupleMeta::kAskMask, TupleMeta::steps(when) << (TupleMeta::kLimitBits + 1));
}

}  // namespace weir::memory
