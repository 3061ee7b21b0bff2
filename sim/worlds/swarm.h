// A swarm: small worlds, drawn from one seed after another.

#pragma once

#include <cstdint>

#include "sim/worlds/world.h"

namespace weir::sim {

// Depends on the seed alone, so that one world can be run again without the others.
[[nodiscard]] WorldOptions world_of(uint64_t seed);

}  // namespace weir::sim
