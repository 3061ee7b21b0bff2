// weir sim --swarm: small worlds drawn from one seed after another, as stormy as the tests make
// them, until the time is up or an invariant is broken.

#pragma once

#include <cstdint>
#include <optional>

namespace weir::sim {

struct SwarmSettings {
  std::optional<uint64_t> seed;    // of the first world; none: any, and it is told
  std::optional<double> minutes;   // if neither is given: one
  std::optional<uint64_t> worlds;  // at most so many
};

// Tells what happened and returns the exit code: 0, 1 if something broke, 130 if stopped. The same
// seeds always come to the same fingerprint.
[[nodiscard]] int run_swarm(const SwarmSettings& settings);

}  // namespace weir::sim
