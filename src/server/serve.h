// weir serve: everything wired together, until the process is asked to stop.

#pragma once

#include "server/config.h"

namespace weir::server {

// Serves; returns when it was asked to stop and what was asked is answered. Throws
// std::runtime_error if it cannot begin.
void serve(Config config);

}  // namespace weir::server
