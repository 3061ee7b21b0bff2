// weir serve: builds the server from its parts and runs it until it is stopped.

#pragma once

#include <functional>
#include <optional>

#include "server/config.h"

namespace weir::server {

// Reads the settings again; nullopt after an error, which it has logged.
using ReloadConfig = std::function<std::optional<Config>()>;

// Serves until a signal stops it, and answers the pending requests. SIGHUP reloads the settings.
// Throws std::runtime_error if it cannot start or must not continue.
void serve(Config config, const ReloadConfig& reload_config);

}  // namespace weir::server
