// A world as a small file, so that a violation can be reproduced: `name: value` lines, a subset of
// YAML. Settings that a file leaves out have their defaults. Planted bugs are not written.

#pragma once

#include <string>
#include <string_view>

#include "sim/worlds/world.h"
#include "weir/error.h"

namespace weir::sim {

// `comment` may have several lines.
[[nodiscard]] std::string write_world(const WorldOptions& options, std::string_view comment = {});

// An error is one line: "line 3: 'regoins' is not a setting of a world".
[[nodiscard]] Result<WorldOptions> read_world(std::string_view text);

}  // namespace weir::sim
