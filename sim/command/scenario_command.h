// weir sim SCENARIO: lives a scenario, and tells what it came to.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::sim {

struct SimSettings {
  std::string file;
  std::optional<uint64_t> seed;       // none: the scenario's own
  uint64_t seeds = 1;                 // this one and those after it
  std::string out;                    // a folder for JSON and a page; empty: none
  std::vector<std::string> changes;   // "settings.policy=floor"
  std::vector<std::string> compared;  // a change, another file, or "floor"
  bool check = false;                 // run every checker of a world, too
};

// Tells what happened and returns the exit code: 0; 1 if the scenario did not keep a promise, if an
// invariant was broken in any run, or if a file could not be read or written; 2 if a scenario is
// wrong. A promise that only something compared did not keep is shown and no failure: to show that
// is what one compares for.
[[nodiscard]] int run_sim(const SimSettings& settings);

// The scenarios in ./scenarios and what each is about.
[[nodiscard]] int list_scenarios();

}  // namespace weir::sim
