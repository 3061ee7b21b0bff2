// The keys that open every door.
//
// Only their SHA-256 is kept, so whoever reads the data folder or a core file finds no key.
// A key is long and random, so that its hash cannot be searched for; compared in constant
// time. Safe from any thread once filled.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::rules {

using KeyHash = std::array<uint8_t, 32>;

[[nodiscard]] KeyHash hash_of(std::string_view key);
[[nodiscard]] std::string to_hex(const KeyHash& hash);
[[nodiscard]] std::optional<KeyHash> from_hex(std::string_view text);

// "weir_root_" and 30 letters and digits, made from `bits`.
[[nodiscard]] std::string make_key(const std::array<uint64_t, 3>& bits);

inline constexpr size_t kMinKeyBytes = 16;
inline constexpr size_t kMaxKeyBytes = 256;

// Equal, told in a time that depends on the lengths alone.
[[nodiscard]] bool same_secret(std::string_view a, std::string_view b);

class RootKeys {
 public:
  void add(const KeyHash& hash) { hashes_.push_back(hash); }
  [[nodiscard]] bool knows(std::string_view key) const;

 private:
  std::vector<KeyHash> hashes_;
};

}  // namespace weir::rules
