// The random name of one run of a process, under which it counts at the origin.
//
// Every client of the origin can read this name there. So it must not reveal the secret that seeds
// the hash of keys: a client that knew the secret could aim keys at one bucket.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/keyed_hash.h"
#include "platform/entropy.h"

namespace weir::regional {

// Never 0. The same for the same seed, for tests and simulations; it does not reveal the seed.
[[nodiscard]] inline uint64_t make_incarnation(std::optional<uint64_t> seed) {
  if (!seed) return platform::entropy() | 1;
  // More words than the hash adds up: beyond kShortWords it multiplies with secrets repeatedly.
  constexpr std::array<uint64_t, 2 * base::KeyedHash::kShortWords> kWords{};
  return base::KeyedHash(*seed)(kWords.data(), kWords.size(), 1) | 1;
}

}  // namespace weir::regional
