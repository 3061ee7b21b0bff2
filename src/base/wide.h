// 128-bit products, and quotients.
//
// All factors are below 2^64, so a product is below 2^128 and a quotient is exact. The narrow
// branches only make it faster: a 128-bit division costs several times a 64-bit one, and on many
// processors a 64-bit one costs twice a 32-bit one.

#pragma once

#include <cstdint>
#include <limits>

namespace weir::base {

__extension__ using Wide = unsigned __int128;

// floor(a / b); b > 0.
[[nodiscard]] constexpr uint64_t divide(uint64_t a, uint64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

// floor(a * b / c), saturated to 64 bits; c > 0.
[[nodiscard]] constexpr uint64_t mul_div(uint64_t a, uint64_t b, uint64_t c) {
  if (((a | b) >> 32) == 0) return divide(a * b, c);
  const Wide quotient = Wide{a} * b / c;
  constexpr Wide kMax = std::numeric_limits<uint64_t>::max();
  return static_cast<uint64_t>(quotient < kMax ? quotient : kMax);
}

[[nodiscard]] constexpr uint64_t saturating_add(uint64_t a, uint64_t b) {
  const uint64_t sum = a + b;
  return sum < a ? std::numeric_limits<uint64_t>::max() : sum;
}

[[nodiscard]] constexpr uint64_t saturating_sub(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

[[nodiscard]] constexpr uint64_t ceil_div(uint64_t a, uint64_t b) {
  const uint64_t quotient = divide(a, b);
  return quotient + (quotient * b != a);
}

}  // namespace weir::base
