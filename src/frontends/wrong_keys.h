// Which answers to wrong keys are delayed.
//
// The delay slows down a client that tries keys. A client that was given a wrong key must learn it
// at once: a gateway waits for less than the delay, takes a late answer for no answer, and may let
// requests pass then. It repeats its key, which tries nothing. So an answer is delayed if the
// address has not sent this key lately, and has sent several others.
//
// One thread at a time: each loop has one instance for each of its front ends.

#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "rules/root_keys.h"
#include "weir/time.h"

namespace weir::frontends {

class WrongKeys {
 public:
  // Keys of an address that are remembered, and that are new and still answered at once. Fewer:
  // several gateways behind one address learn late. More: an address tries more keys at once.
  static constexpr size_t kKeys = 8;
  // After this time, one more new key is answered at once.
  static constexpr Nanos kInterval = std::chrono::seconds(1);
  // Addresses that are remembered. If more send wrong keys, the answers to the others are delayed.
  static constexpr size_t kAddresses = 1024;
  static constexpr Nanos kRemembered = std::chrono::seconds(60);

  // Whether the answer to a wrong key of this address is delayed.
  [[nodiscard]] bool delays(uint64_t address, const rules::KeyHash& key, MonoTime now);

 private:
  struct Sent {
    std::array<uint64_t, kKeys> keys{};  // the first bytes of their hashes
    size_t next = 0;                     // the oldest of them
    MonoTime used_up_to{};               // ahead of the time by what new keys have used
    MonoTime last{};
  };
  // Null: there is no place.
  [[nodiscard]] Sent* find(uint64_t address, MonoTime now);

  std::unordered_map<uint64_t, Sent> sent_;
  MonoTime forgot_{};  // when old addresses were removed
};

}  // namespace weir::frontends
