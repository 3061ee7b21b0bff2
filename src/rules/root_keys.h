// The keys that open every door.
//
// Only their SHA-256 is kept, so whoever reads the data folder or a core file finds no key.
// A key is long and random, so that its hash cannot be searched for; compared in constant
// time. Safe from any thread once filled; replace() too, by one thread at a time.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
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
  RootKeys() = default;
  RootKeys(const RootKeys&) = delete;
  RootKeys& operator=(const RootKeys&) = delete;

  // Before it is used.
  void add(const KeyHash& hash) { sets_.front().push_back(hash); }
  // From here on this is the only key. Readers never wait: the former keys stay in memory.
  void replace(const KeyHash& hash) {
    sets_.push_back({hash});
    current_.store(&sets_.back(), std::memory_order_release);
  }
  [[nodiscard]] bool knows(std::string_view key) const;

 private:
  std::list<std::vector<KeyHash>> sets_{1};
  std::atomic<const std::vector<KeyHash>*> current_{&sets_.front()};
};

}  // namespace weir::rules
