// The worlds of a swarm: small ones, drawn from one seed after another.

#pragma once

#include <cstdint>

#include "sim/worlds/world.h"

namespace weir::sim {

// By the seed alone, so that one world can be seen again without those before it.
[[nodiscard]] WorldOptions world_of(uint64_t seed);

}  // namespace weir::sim
