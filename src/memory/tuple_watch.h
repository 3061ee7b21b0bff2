// The conditions that queue a window tuple for background work, in one word that every admission
// reads anyway.
//
//   bit 63      dirty: a replay is in flight or due
//   bit 62      denied: a request was denied since the publish rule was last evaluated
//   bits 58-61  taken: the classes that have taken over its usage; see conversion.h
//   bits 32-57  generation: distinguishes the tuples that have used this slot
//   bits 16-31  the smallest limit requested in this window; a smaller one triggers the rule
//   bits 0-15   threshold: a window count, own and others, that triggers the publish rule
//
// The last two are rounded down, so that no trigger is missed: eleven digits and a shift. A new
// tuple has 0 for both, so its first charge triggers the rule.

#pragma once

#include <bit>
#include <cstdint>

#include "memory/tagged_word.h"

namespace weir::memory {

// A number rounded down to 16 bits: a floating-point format without sign.
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
  static constexpr uint64_t kDenied = uint64_t{1} << 62;
  static constexpr int kGenerationShift = 32;
  static constexpr uint64_t kGenerationMask = (uint64_t{1} << 26) - 1;
  static constexpr int kTakenShift = 58;
  static constexpr int kLimitShift = 16;
  static constexpr uint64_t kCodeMask = 0xffff;
  static constexpr uint64_t kWatchMask = kCodeMask << kLimitShift | kCodeMask;

  uint64_t word = 0;

  // The generation is never 0.
  [[nodiscard]] static constexpr TupleWatch initial(uint64_t generation) {
    return {(generation % kGenerationMask + 1) << kGenerationShift};
  }
  [[nodiscard]] constexpr bool dirty() const { return (word & kDirty) != 0; }
  [[nodiscard]] constexpr bool denied() const { return (word & kDenied) != 0; }
  [[nodiscard]] constexpr uint64_t generation() const {
    return word >> kGenerationShift & kGenerationMask;
  }
  [[nodiscard]] constexpr Count limit() const {
    return Rounded::number_of(word >> kLimitShift & kCodeMask);
  }
  // Whether an admission that raised the window to `count` triggers the publish rule.
  [[nodiscard]] constexpr bool reached_by(Count count) const {
    return Rounded::number_of(word & kCodeMask) <= count;
  }
};

// No count reaches kNever.
static_assert(Rounded::number_of(Rounded::kNever) > 2 * kMaxLimit);

}  // namespace weir::memory
