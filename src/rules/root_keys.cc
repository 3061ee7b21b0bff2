#include "rules/root_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace weir::rules {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

KeyHash hash_of(std::string_view key) {
  KeyHash hash;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), hash.data());
  return hash;
}

std::string to_hex(const KeyHash& hash) {
  std::string text;
  for (const uint8_t byte : hash) {
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

std::optional<KeyHash> from_hex(std::string_view text) {
  KeyHash hash;
  if (text.size() != 2 * hash.size()) return std::nullopt;
  for (size_t i = 0; i < hash.size(); ++i) {
    const size_t high = kHexDigits.find(text[2 * i]);
    const size_t low = kHexDigits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    hash[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return hash;
}

std::string make_key(std::string_view prefix, const std::array<uint64_t, 3>& bits) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::string key(prefix);
  for (uint64_t word : bits) {
    for (int i = 0; i < 10; ++i, word /= kLetters.size()) key += kLetters[word % kLetters.size()];
  }
  return key;
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool RootKeys::contains(const KeyHash& hash) const {
  int found = 0;
  for (const KeyHash& known : *current_.load(std::memory_order_acquire)) {
    found |= CRYPTO_memcmp(known.data(), hash.data(), hash.size()) == 0 ? 1 : 0;
  }
  return found != 0;
}

}  // namespace weir::rules
