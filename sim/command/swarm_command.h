// weir sim --swarm: runs small random worlds with many faults, one seed after another, until the
// time is over or an invariant breaks. A failing world is shrunk and written to a file that
// weir sim --replay runs.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weir::sim {

struct SwarmSettings {
  std::optional<uint64_t> seed;    // of the first world; default: random, and printed
  std::optional<double> minutes;   // default: 1, unless `worlds` is given
  std::optional<uint64_t> worlds;  // the maximum
};

// Prints the coverage and returns the exit code: 0; 1 if an invariant broke; 130 if interrupted.
// Equal seeds give equal fingerprints.
[[nodiscard]] int run_swarm(const SwarmSettings& settings);

// Runs the world of a file. Returns 0 if all invariants hold, 1 if one breaks or the file cannot be
// read, 2 if the file is not a world.
[[nodiscard]] int replay_world(const std::string& file);

}  // namespace weir::sim
