// weir sim SCENARIO: runs a scenario and reports the results.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::sim {

struct SimSettings {
  std::string file;
  std::optional<uint64_t> seed;       // default: the seed of the scenario
  uint64_t seeds = 1;                 // number of consecutive seeds to run
  std::string out;                    // directory for the JSON and HTML files; empty: none
  std::vector<std::string> changes;   // "settings.policy=floor"
  std::vector<std::string> compared;  // a change, a file, or "floor"
};

// Prints the results and returns the exit code: 0 on success; 1 if an expectation was not met, an
// invariant was broken in any run, or a file could not be read or written; 2 if a scenario is
// invalid. An unmet expectation of a compared variant is printed but is not a failure.
[[nodiscard]] int run_sim(const SimSettings& settings);

// Prints the scenarios in ./scenarios with their descriptions.
[[nodiscard]] int list_scenarios();

}  // namespace weir::sim
