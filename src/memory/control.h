// The control bytes of a bucket, held against one byte all at once.
//
// Without a branch, since nobody can foretell which slot it is.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/inline.h"
#include "base/race_detector.h"

// To a race detector the wide load would not be atomic, and a test cannot interrupt it.
#if defined(__SSE2__) && !defined(WEIR_RACE_DETECTOR) && !defined(WEIR_MUTATIONS)
#define WEIR_MATCH_BY_SSE2
#include <emmintrin.h>
#endif

namespace weir::memory {

inline constexpr size_t kBucketSlots = 16;
inline constexpr size_t kControlWords = kBucketSlots / 8;  // of a bucket

// Some slots of one bucket. One whose byte differs from the wanted one in its last bit alone may be
// among them wrongly: of a tuple that is there the key is compared anyway.
class Marks {
 public:
  // Those whose control byte is this. `control` is where the bucket's words begin.
  template <std::memory_order kOrder>
  WEIR_HOT_INLINE static Marks of(const base::Atomic<uint64_t>* control, uint8_t byte);

  [[nodiscard]] bool any() const { return bits_ != 0; }
  [[nodiscard]] size_t first() const;
  void drop_first() { bits_ &= bits_ - 1; }

 private:
  uint64_t bits_ = 0;
};

#if defined(WEIR_MATCH_BY_SSE2)

// Bit i for slot i.
template <std::memory_order kOrder>
WEIR_HOT_INLINE Marks Marks::of(const base::Atomic<uint64_t>* control, uint8_t byte) {
  // Each of the two words comes whole, and no later load before it: that much x86 promises, and
  // the fence keeps the compiler to it.
  const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(control));
  if constexpr (kOrder != std::memory_order_relaxed) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  const __m128i same = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(static_cast<char>(byte)));
  Marks marks;
  marks.bits_ = static_cast<uint32_t>(_mm_movemask_epi8(same));
  return marks;
}

WEIR_HOT_INLINE size_t Marks::first() const {
  return static_cast<size_t>(__builtin_ctzll(bits_));
}

#else

namespace detail {
inline constexpr uint64_t kLowBits = 0x0101010101010101ULL;
inline constexpr uint64_t kHighBits = 0x8080808080808080ULL;

// Sets the high bit of each byte that is 0. A byte of 1 after such a one may be marked wrongly.
inline uint64_t zero_bytes(uint64_t word) {
  return (word - kLowBits) & ~word & kHighBits;
}
}  // namespace detail

// Bit 8i for slot i, bit 8i + 1 for slot i + 8.
template <std::memory_order kOrder>
WEIR_HOT_INLINE Marks Marks::of(const base::Atomic<uint64_t>* control, uint8_t byte) {
  static_assert(kControlWords == 2);
  const uint64_t pattern = detail::kLowBits * byte;
  Marks marks;
  marks.bits_ = detail::zero_bytes(control[0].load(kOrder) ^ pattern) >> 7 |
                detail::zero_bytes(control[1].load(kOrder) ^ pattern) >> 6;
  return marks;
}

WEIR_HOT_INLINE size_t Marks::first() const {
  const auto bit = static_cast<size_t>(__builtin_ctzll(bits_));
  return bit / 8 + (bit & 1) * 8;
}

#endif

}  // namespace weir::memory
