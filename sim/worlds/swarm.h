// A swarm: small worlds, drawn from one seed after another.

#pragma once

#include <cstdint>

#include "sim/worlds/world.h"

namespace weir::sim {

// Worlds of each of these seeds and later ones draw more options; those of earlier seeds stay as
// they are.
inline constexpr uint64_t kFirstWideSeed = 10'000'000;
inline constexpr uint64_t kFirstWidestSeed = 40'000'000;
inline constexpr uint64_t kFirstRelaxedSeed = 50'000'000;

// Depends on the seed alone, so that one world can be run again without the others.
[[nodiscard]] WorldOptions world_of(uint64_t seed);

}  // namespace weir::sim
