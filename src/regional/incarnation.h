// The name of one life of a process, under which it counts at the origin.
//
// Everybody who may read the origin reads it there. So it has nothing to do with the secret that
// keys are hashed under: whoever knew that could aim keys at one bucket.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/keyed_hash.h"
#include "platform/entropy.h"

namespace weir::limiter {

// Never 0. With a seed always the same for it, for tests and simulations; it does not tell the
// seed.
[[nodiscard]] inline uint64_t make_incarnation(std::optional<uint64_t> seed) {
  if (!seed) return platform::entropy() | 1;
  // More words than the hash adds up: they are multiplied with secrets, again and again.
  constexpr std::array<uint64_t, 2 * base::KeyedHash::kShortWords> kWords{};
  return base::KeyedHash(*seed)(kWords.data(), kWords.size(), 1) | 1;
}

}  // namespace weir::limiter
