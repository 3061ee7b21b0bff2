// Packs byte strings one behind the other into 64-bit words, in registers.
//
// The same could be done by copying bytes into a buffer and reading it back as words;
// but a processor that loads a word from bytes stored a moment ago in smaller pieces has
// to wait for all of them to reach the cache.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace weir::base {

static_assert(std::endian::native == std::endian::little);

// Writes to `words`, which has room for all that is added, rounded up to a word.
class WordPacker {
 public:
  explicit WordPacker(uint64_t* words) : next_(words) {}

  void add(std::string_view bytes) {
    const char* from = bytes.data();
    size_t left = bytes.size();
    for (; left >= 8; left -= 8, from += 8) add_bytes(load<uint64_t>(from), 8);
    if (left > 0) add_bytes(load_short(from, left), left);
  }

  // Writes the last word, padded with zeros.
  void finish() {
    if (filled_ > 0) *next_ = partial_;
  }

 private:
  template <typename T>
  static T load(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  // 1 to 7 bytes, none beyond them touched.
  static uint64_t load_short(const char* from, size_t n) {
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

  void add_bytes(uint64_t value, size_t n) {
    partial_ |= value << (8 * filled_);
    if (filled_ + n >= 8) {
      *next_++ = partial_;
      partial_ = filled_ == 0 ? 0 : value >> (8 * (8 - filled_));
      filled_ = filled_ + n - 8;
    } else {
      filled_ += n;
    }
  }

  uint64_t* next_;
  uint64_t partial_ = 0;
  size_t filled_ = 0;  // bytes of partial_ in use, below 8
};

}  // namespace weir::base
