// weir sim --swarm: small worlds drawn from one seed after another, as stormy as the tests make
// them, until the time is up or an invariant is broken. A world that breaks is made smaller and
// written to a file, which weir sim --replay runs again.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weir::sim {

struct SwarmSettings {
  std::optional<uint64_t> seed;    // of the first world; none: any, and it is told
  std::optional<double> minutes;   // if neither is given: one
  std::optional<uint64_t> worlds;  // at most so many
};

// Tells what happened and returns the exit code: 0, 1 if something broke, 130 if stopped. The same
// seeds always come to the same fingerprint.
[[nodiscard]] int run_swarm(const SwarmSettings& settings);

// Runs the world of a file: 0 if it holds, 1 if it breaks or cannot be read, 2 if it is none.
[[nodiscard]] int replay_world(const std::string& file);

}  // namespace weir::sim
