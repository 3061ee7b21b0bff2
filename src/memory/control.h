// Compares all control bytes of a bucket with one byte at once.
//
// Without a branch, because the matching slot cannot be predicted.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/inline.h"
#include "base/race_detector.h"

// A race detector takes the wide load for a non-atomic one, and a scheduling test cannot interrupt
// it.
#if defined(__SSE2__) && !defined(WEIR_RACE_DETECTOR) && !defined(WEIR_MUTATIONS)
#define WEIR_MATCH_BY_SSE2
#include <emmintrin.h>
#endif

namespace weir::memory {

inline constexpr size_t kBucketSlots = 16;
inline constexpr size_t kControlWords = kBucketSlots / 8;  // of a bucket

// A set of slots of one bucket. It may wrongly contain a slot whose byte differs from the wanted
// one in the last bit only: the caller compares the key of a found tuple anyway.
class SlotMatches {
 public:
  // The slots with this control byte. `control` points to the first word of the bucket.
  template <std::memory_order kOrder>
  WEIR_HOT_INLINE static SlotMatches of(const base::Atomic<uint64_t>* control, uint8_t byte);

  [[nodiscard]] bool any() const { return bits_ != 0; }
  [[nodiscard]] size_t first() const;
  void drop_first() { bits_ &= bits_ - 1; }

 private:
  uint64_t bits_ = 0;
};

#if defined(WEIR_MATCH_BY_SSE2)

// Bit i for slot i.
template <std::memory_order kOrder>
WEIR_HOT_INLINE SlotMatches SlotMatches::of(const base::Atomic<uint64_t>* control, uint8_t byte) {
  // x86 loads each of the two words as a whole and does not move later loads before it. The fence
  // keeps the compiler from doing so.
  const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(control));
  if constexpr (kOrder != std::memory_order_relaxed) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  const __m128i same = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(static_cast<char>(byte)));
  SlotMatches matches;
  matches.bits_ = static_cast<uint32_t>(_mm_movemask_epi8(same));
  return matches;
}

WEIR_HOT_INLINE size_t SlotMatches::first() const {
  return static_cast<size_t>(__builtin_ctzll(bits_));
}

#else

namespace detail {
inline constexpr uint64_t kLowBits = 0x0101010101010101ULL;
inline constexpr uint64_t kHighBits = 0x8080808080808080ULL;

// Sets the high bit of each byte that is 0. It may also set that of a byte of 1 that follows one.
inline uint64_t zero_bytes(uint64_t word) {
  return (word - kLowBits) & ~word & kHighBits;
}
}  // namespace detail

// Bit 8i for slot i, bit 8i + 1 for slot i + 8.
template <std::memory_order kOrder>
WEIR_HOT_INLINE SlotMatches SlotMatches::of(const base::Atomic<uint64_t>* control, uint8_t byte) {
  static_assert(kControlWords == 2);
  const uint64_t pattern = detail::kLowBits * byte;
  SlotMatches matches;
  matches.bits_ = detail::zero_bytes(control[0].load(kOrder) ^ pattern) >> 7 |
                  detail::zero_bytes(control[1].load(kOrder) ^ pattern) >> 6;
  return matches;
}

WEIR_HOT_INLINE size_t SlotMatches::first() const {
  const auto bit = static_cast<size_t>(__builtin_ctzll(bits_));
  return bit / 8 + (bit & 1) * 8;
}

#endif

}  // namespace weir::memory
