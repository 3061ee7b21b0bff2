// weir serve: everything wired together, until the process is asked to stop.

#pragma once

#include <functional>
#include <optional>

#include "server/config.h"

namespace weir::server {

// The settings as they are now; none if something is wrong with them, which it has said.
using ReloadConfig = std::function<std::optional<Config>()>;

// Serves; returns when it was asked to stop and what was asked is answered. SIGHUP has the settings
// read again. Throws std::runtime_error if it cannot begin, or must not go on.
void serve(Config config, const ReloadConfig& reload_config);

}  // namespace weir::server
