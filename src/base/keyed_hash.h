// A fast keyed hash of short byte strings.
//
// Up to seven words are hashed by NH: each word plus its own secret gives two 32-bit factors, and
// their products are summed. Two strings of one length collide in that sum for fewer than one
// secret in 2^30, and all steps after it are bijective. Longer strings are folded by
// 64x64->128-bit multiplication with secret operands. Without the secret nobody can choose keys
// that collide in a table. The hash is not a MAC, and equal hashes do not prove equal keys.
//
// The input is whole words: the caller pads the bytes with zeros to a multiple of eight and puts
// the true length into the tweak, or two strings that differ only in trailing zeros would collide.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/inline.h"
#include "base/split_mix.h"
#include "base/wide.h"

namespace weir::base {

class KeyedHash {
 public:
  // Expands one seed into the secret; different seeds give unrelated hashes.
  explicit constexpr KeyedHash(uint64_t seed) {
    for (uint64_t& word : secret_) word = split_mix(seed) | 1;
  }

  [[nodiscard]] uint64_t operator()(const uint64_t* words, size_t count, uint64_t tweak) const {
    if (count > kShortWords) return fold_all(words, count, tweak);
    Short hash(*this, tweak);
    for (size_t i = 0; i < count; ++i) hash.add(words[i]);
    return hash.finish();
  }

  // The same for at most kShortWords words that are added one by one.
  class Short {
   public:
    WEIR_HOT_INLINE Short(const KeyedHash& hash, uint64_t tweak)
        : next_(hash.secret_ + 1), last_(hash.secret_[kShortWords + 1]) {
      add(tweak, hash.secret_[0]);
    }
    WEIR_HOT_INLINE void add(uint64_t word) { add(word, *next_++); }
    [[nodiscard]] WEIR_HOT_INLINE uint64_t finish() const {
      const uint64_t mixed = (sum_ ^ sum_ >> 32) * last_;
      return mixed ^ mixed >> 32;
    }

   private:
    WEIR_HOT_INLINE void add(uint64_t word, uint64_t secret) {
      const uint64_t mixed = word + secret;
#if defined(__aarch64__)
      // The compiler would multiply 64 bits by 64, which takes three times as long.
      // Uses a copy, because an operand that is a member is stored to memory every time.
      uint64_t sum = sum_;
      asm("umaddl %0, %w1, %w2, %0" : "+r"(sum) : "r"(mixed), "r"(mixed >> 32));
      sum_ = sum;
#else
      sum_ += uint64_t{static_cast<uint32_t>(mixed)} * static_cast<uint32_t>(mixed >> 32);
#endif
    }
    const uint64_t* next_;
    uint64_t last_;
    uint64_t sum_ = 0;
  };
  static constexpr size_t kShortWords = 7;

 private:
  [[nodiscard]] uint64_t fold_all(const uint64_t* words, size_t count, uint64_t tweak) const {
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
  static uint64_t fold(uint64_t a, uint64_t b) {
    const Wide product = Wide{a} * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  uint64_t secret_[kShortWords + 2]{};  // all odd
};

}  // namespace weir::base
