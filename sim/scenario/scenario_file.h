// Reads a scenario from YAML; docs/scenarios.md has the format.
//
// Any text is either a scenario that can be lived, or an error that names the place, the key, the
// value and what would be right. What is not understood is never passed over.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.h"
#include "weir/error.h"

namespace weir::sim {

// A value to be read instead of what stands in the file, or where nothing does:
// {"settings.policy", "floor"}, {"limits.0.limit", "50"}. The value is YAML, too.
struct ScenarioChange {
  std::string path;
  std::string value;
};

// `file` is for the scenario's name and for errors. An error is one line, in `detail`:
// "scenarios/x.yaml:12:5: traffic[1].shape: 'posson' is none of ...; did you mean poisson?"
[[nodiscard]] Result<Scenario> read_scenario(std::string_view text, std::string_view file,
                                             const std::vector<ScenarioChange>& changes = {});

}  // namespace weir::sim
