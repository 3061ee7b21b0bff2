// What a window tuple is to be looked at for, in one word that every admission reads anyway.
//
//   bit 63      dirty: a replay is under way or due
//   bit 62      refused: since the publish rule was last looked at
//   bits 32-61  generation: which of the tuples that were ever in this slot it is
//   bits 16-31  the smallest limit asked in this window; an ask with less is news to the rule
//   bits 0-15   watch: when this window has this much, of whomever, the rule is looked at
//
// The last two are rounded down, so that what they watch for is never missed: eleven bits and how
// far to shift them. A new tuple has 0 for both, and is looked at when it is first charged.

#pragma once

#include <bit>
#include <cstdint>

#include "memory/words.h"

namespace weir::memory {

// A number in 16 bits, rounded down.
struct Rounded {
  static constexpr int kDigits = 11;
  static constexpr uint64_t kNever = 0xffff;

  [[nodiscard]] static constexpr uint64_t code_of(uint64_t number) {
    const int shift = static_cast<int>(std::bit_width(number)) - kDigits;
    if (shift <= 0) return number;
    if (shift > 31) return kNever;
    return static_cast<uint64_t>(shift) << kDigits | number >> shift;
  }
  [[nodiscard]] static constexpr uint64_t number_of(uint64_t code) {
    return (code & ((uint64_t{1} << kDigits) - 1)) << (code >> kDigits);
  }
};

struct TupleWatch {
  static constexpr uint64_t kDirty = kClosedBit;
  static constexpr uint64_t kRefused = uint64_t{1} << 62;
  static constexpr int kGenerationShift = 32;
  static constexpr uint64_t kGenerationMask = (uint64_t{1} << 30) - 1;
  static constexpr int kLimitShift = 16;
  static constexpr uint64_t kCodeMask = 0xffff;
  static constexpr uint64_t kWatchMask = kCodeMask << kLimitShift | kCodeMask;

  uint64_t word = 0;

  // Never 0.
  [[nodiscard]] static constexpr TupleWatch born(uint64_t generation) {
    return {(generation % kGenerationMask + 1) << kGenerationShift};
  }
  [[nodiscard]] constexpr bool dirty() const { return (word & kDirty) != 0; }
  [[nodiscard]] constexpr bool refused() const { return (word & kRefused) != 0; }
  [[nodiscard]] constexpr uint64_t generation() const {
    return word >> kGenerationShift & kGenerationMask;
  }
  [[nodiscard]] constexpr Count limit() const {
    return Rounded::number_of(word >> kLimitShift & kCodeMask);
  }
  // Whether an admission that brought the window to `count` must be looked at.
  [[nodiscard]] constexpr bool reached_by(Count count) const {
    return Rounded::number_of(word & kCodeMask) <= count;
  }
};

// From kNever on nothing is reached: no count is as large.
static_assert(Rounded::number_of(Rounded::kNever) > 2 * static_cast<uint64_t>(kMaxLimit));

}  // namespace weir::memory
