// Packs byte strings into 64-bit words; each string starts at a new word.
//
// Words are loaded from the string into registers and stored as a whole: a load of a word that was
// stored a moment ago in smaller pieces must wait until all of them have reached the cache. The
// last word of a string of eight bytes or more overlaps the one before; for strings of the same
// length, equal words still mean equal strings.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/inline.h"

namespace weir::base {

static_assert(std::endian::native == std::endian::little);

[[nodiscard]] constexpr size_t words_for(size_t bytes) {
  return (bytes + 7) / 8;
}

// Writes to `words`, which must have words_for() words for each added string.
class WordPacker {
 public:
  explicit WordPacker(uint64_t* words) : next_(words) {}

  void add(std::string_view bytes) {
    const char* from = bytes.data();
    const size_t size = bytes.size();
    if (size >= 8) {
      const char* const last = from + size - 8;
      for (; from < last; from += 8) *next_++ = load<uint64_t>(from);
      *next_++ = load<uint64_t>(last);
    } else if (size > 0) {
      *next_++ = load_short(from, size);
    }
  }

  template <typename T>
  WEIR_HOT_INLINE static T load(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  // Loads 1 to 7 bytes, pads them with zeros, and reads no byte beyond them.
  WEIR_HOT_INLINE static uint64_t load_short(const char* from, size_t n) {
    if (n >= 4) {
      const uint64_t low = load<uint32_t>(from);
      const uint64_t high = load<uint32_t>(from + n - 4);
      return low | high << (8 * (n - 4));
    }
    const auto byte = [from](size_t i) {
      return static_cast<uint64_t>(static_cast<uint8_t>(from[i]));
    };
    return byte(0) | byte(n / 2) << (8 * (n / 2)) | byte(n - 1) << (8 * (n - 1));
  }

 private:
  uint64_t* next_;
};

// The string of `bytes` bytes that a WordPacker wrote to `words`.
[[nodiscard]] inline std::string unpack(const char* words, size_t bytes) {
  std::string out(bytes, '\0');
  if (bytes < 8) {
    std::memcpy(out.data(), words, bytes);
    return out;
  }
  const size_t whole = words_for(bytes) - 1;
  std::memcpy(out.data(), words, whole * 8);
  std::memcpy(out.data() + bytes - 8, words + 8 * whole, 8);
  return out;
}

// Calls `visit(word)` for each word that a WordPacker would write for `bytes`, which is not empty,
// until it returns false. Returns its last result.
template <typename Visit>
WEIR_HOT_INLINE bool each_word(std::string_view bytes, Visit&& visit) {
  const char* from = bytes.data();
  const size_t size = bytes.size();
  if (size < 8) return visit(WordPacker::load_short(from, size));
  const char* const last = from + size - 8;
  for (; from < last; from += 8) {
    if (!visit(WordPacker::load<uint64_t>(from))) return false;
  }
  return visit(WordPacker::load<uint64_t>(last));
}

}  // namespace weir::base
