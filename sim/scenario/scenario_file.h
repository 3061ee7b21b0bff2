// Reads a scenario from YAML; docs/scenarios.md has the format.
//
// Any text gives either a valid scenario or an error that names the location, the key, the value
// and the valid values. Unknown keys are errors.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.h"
#include "weir/error.h"

namespace weir::sim {

// Replaces or adds a value of the file: {"settings.policy", "floor"}, {"limits.0.limit", "50"}. The
// value is YAML, too.
struct ScenarioChange {
  std::string path;
  std::string value;
};

// `file` gives the scenario's name and the location in errors. An error is one line, in `detail`:
// "scenarios/x.yaml:12:5: traffic[1].shape: 'posson' is none of ...; did you mean poisson?"
[[nodiscard]] Result<Scenario> read_scenario(std::string_view text, std::string_view file,
                                             const std::vector<ScenarioChange>& changes = {});

}  // namespace weir::sim
