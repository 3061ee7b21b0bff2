// The root keys, which authenticate clients of every front end.
//
// Only the SHA-256 of a key is stored, so neither the data folder nor a core file contains a key.
// A key is long and random, so that its hash cannot be brute-forced; compared in constant
// time. contains() is safe from any thread; replace() by one thread at a time.

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

// The prefix and 30 letters and digits, derived from `bits`.
[[nodiscard]] std::string make_key(std::string_view prefix, const std::array<uint64_t, 3>& bits);

inline constexpr size_t kMinKeyBytes = 16;
inline constexpr size_t kMaxKeyBytes = 256;

// Equality in constant time for texts of the same length.
[[nodiscard]] bool same_secret(std::string_view a, std::string_view b);

class RootKeys {
 public:
  RootKeys() = default;
  RootKeys(const RootKeys&) = delete;
  RootKeys& operator=(const RootKeys&) = delete;

  // Only before the first contains().
  void add(const KeyHash& hash) { sets_.front().push_back(hash); }
  // Makes this the only key. Readers never wait: the previous keys stay allocated.
  void replace(const KeyHash& hash) {
    sets_.push_back({hash});
    current_.store(&sets_.back(), std::memory_order_release);
  }
  // Changes with replace(), so that a client that has shown a key is checked again.
  [[nodiscard]] const void* version() const { return current_.load(std::memory_order_acquire); }
  [[nodiscard]] bool contains(std::string_view key) const { return contains(hash_of(key)); }
  [[nodiscard]] bool contains(const KeyHash& hash) const;

 private:
  std::list<std::vector<KeyHash>> sets_{1};
  std::atomic<const std::vector<KeyHash>*> current_{&sets_.front()};
};

}  // namespace weir::rules
