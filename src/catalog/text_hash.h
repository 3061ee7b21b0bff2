// The hash of names and identifiers in the tables of the catalog. Its secret is random in each
// process: nobody outside can choose names that collide.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/keyed_hash.h"
#include "platform/entropy.h"

namespace weir::catalog {

class TextHash {
 public:
  using is_transparent = void;

  [[nodiscard]] size_t operator()(std::string_view text) const {
    static const base::KeyedHash secret(platform::entropy());
    return hash(secret, text);
  }

  [[nodiscard]] static uint64_t hash(const base::KeyedHash& secret, std::string_view text) {
    if (text.size() > 8 * base::KeyedHash::kShortWords) return hash_long(secret, text);
    base::KeyedHash::Short hash(secret, text.size());
    size_t at = 0;
    for (; at + 8 <= text.size(); at += 8) hash.add(load<uint64_t>(text.data() + at));
    if (at < text.size()) hash.add(last_word(text, text.size() - at));
    return hash.finish();
  }

 private:
  static_assert(std::endian::native == std::endian::little, "last_word() shifts");

  template <typename Word>
  [[nodiscard]] static Word load(const char* from) {
    Word word = 0;
    std::memcpy(&word, from, sizeof word);
    return word;
  }

  // The last 1 to 7 bytes. A copy of a variable length would take longer.
  [[nodiscard]] static uint64_t last_word(std::string_view text, size_t bytes) {
    const char* const end = text.data() + text.size();
    if (text.size() >= 8) return load<uint64_t>(end - 8) >> 8 * (8 - bytes);
    const char* const begin = end - bytes;
    if (bytes >= 4) {
      return load<uint32_t>(begin) | uint64_t{load<uint32_t>(end - 4)} << 8 * (bytes - 4);
    }
    const auto byte = [&](size_t i) { return uint64_t{load<uint8_t>(begin + i)} << 8 * i; };
    return byte(0) | byte(bytes / 2) | byte(bytes - 1);
  }

  [[nodiscard]] static uint64_t hash_long(const base::KeyedHash& secret, std::string_view text) {
    std::array<uint64_t, 64> words;
    uint64_t result = text.size();
    while (!text.empty()) {
      const size_t bytes = std::min(text.size(), sizeof words);
      const size_t count = (bytes + 7) / 8;
      words[count - 1] = 0;
      std::memcpy(words.data(), text.data(), bytes);
      result = secret(words.data(), count, result);
      text.remove_prefix(bytes);
    }
    return result;
  }
};

}  // namespace weir::catalog
