// A fast hash of short byte strings under a secret.
//
// Words are folded by 64x64->128-bit multiplication with secret operands. It spreads
// keys over a table so that nobody without the secret can aim at one place; it is no
// MAC, and no decision may rest on two hashes being equal.
//
// The bytes are read in whole words: the caller pads them with zeros to a multiple of
// eight and puts the true length into the tweak, or two strings that differ only in
// trailing zeros would collide.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/wide.h"

namespace weir::base {

class KeyedHash {
 public:
  // Expands one seed into the secret; different seeds give unrelated hashes.
  explicit constexpr KeyedHash(uint64_t seed) {
    for (uint64_t& word : secret_) word = next_secret(seed) | 1;
  }

  [[nodiscard]] uint64_t operator()(const uint64_t* words, size_t count, uint64_t tweak) const {
    uint64_t low = secret_[0] ^ tweak;
    uint64_t high = secret_[1] + count;
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
      low = fold(words[i] ^ secret_[2], words[i + 1] ^ low);
      high = fold(words[i + 2] ^ secret_[3], words[i + 3] ^ high);
    }
    for (; i + 2 <= count; i += 2) low = fold(words[i] ^ secret_[2], words[i + 1] ^ low);
    if (i < count) high = fold(words[i] ^ secret_[3], high);
    return fold(low ^ secret_[4], high ^ secret_[5]);
  }

 private:
  static uint64_t fold(uint64_t a, uint64_t b) {
    const Wide product = Wide{a} * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  // SplitMix64: a full-period walk with well mixed output.
  static constexpr uint64_t next_secret(uint64_t& state) {
    uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  uint64_t secret_[6]{};
};

}  // namespace weir::base
