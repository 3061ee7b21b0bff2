// Numbers as decimal digits, without a loop over the digits: most answers are short numbers.

#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>

#include "base/inline.h"

namespace weir::base {

static_assert(std::endian::native == std::endian::little);

// The longest number that put_decimal() writes, with its sign.
inline constexpr int kMaxDecimal = 20;

// Eight digits of a number below 10^8, the first in the lowest byte.
[[nodiscard]] WEIR_HOT_INLINE uint64_t eight_digits(uint64_t number) {
  // Two numbers of four digits, then four of two, then eight of one: each divided from its
  // neighbour by a multiplication that is exact for so few digits.
  const uint64_t fours = number / 10'000 | (number % 10'000) << 32;
  const uint64_t hundreds = (fours * 10'486 >> 20) & 0x0000'007f'0000'007f;
  const uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
  const uint64_t tens = (twos * 103 >> 10) & 0x000f'000f'000f'000f;
  return tens | (twos - tens * 10) << 8;
}

// Writes at least 8 bytes, of which those from the returned address on mean nothing.
[[nodiscard]] WEIR_HOT_INLINE char* put_below_10_to_8(char* at, uint64_t number) {
  constexpr uint64_t kZeros = 0x3030'3030'3030'3030;
  const uint64_t digits = eight_digits(number);
  // The bit keeps the last digit of 0.
  const int leading = std::countr_zero(digits | uint64_t{1} << 56) / 8;
  const uint64_t text = (digits | kZeros) >> (8 * leading);
  std::memcpy(at, &text, sizeof text);
  return at + 8 - leading;
}

// For the numbers that are rare: at most three groups of eight digits.
[[nodiscard, gnu::noinline]] inline char* put_long_decimal(char* at, uint64_t number) {
  constexpr uint64_t kGroup = 100'000'000;
  constexpr uint64_t kZeros = 0x3030'3030'3030'3030;
  const uint64_t high = number / kGroup;
  at = high < kGroup ? put_below_10_to_8(at, high) : put_long_decimal(at, high);
  const uint64_t text = eight_digits(number % kGroup) | kZeros;
  std::memcpy(at, &text, sizeof text);
  return at + 8;
}

// Writes the number and returns its end. There must be place for kMaxDecimal bytes; those behind
// the end may be overwritten.
[[nodiscard]] WEIR_HOT_INLINE char* put_decimal(char* at, std::integral auto number) {
  auto magnitude = static_cast<uint64_t>(number);
  if (std::signed_integral<decltype(number)> && number < 0) [[unlikely]] {
    *at++ = '-';
    magnitude = 0 - magnitude;
  }
  if (magnitude < 10) {
    *at = static_cast<char>('0' + magnitude);
    return at + 1;
  }
  if (magnitude < 100'000'000) [[likely]]
    return put_below_10_to_8(at, magnitude);
  return put_long_decimal(at, magnitude);
}

}  // namespace weir::base
