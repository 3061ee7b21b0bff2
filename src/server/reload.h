// What an operator changes while a server runs: the settings that can change, the root key, and the
// file that messages go to.

#pragma once

#include <string>

#include "rules/root_keys.h"
#include "server/config.h"
#include "server/serve.h"
#include "weir/limiter.h"

namespace weir::server {

// Sends messages to a file; nothing to do for an empty path. Throws std::runtime_error if it cannot
// be written.
void open_log(const std::string& path);

// The same for a file that has another name by now; says what is wrong, and goes on with the old
// one.
void reopen_log(const std::string& path);

// What a reload changes.
struct ReloadTargets {
  Limiter& limiter;
  rules::RootKeys& keys;
  bool key_is_in_folder = false;
};

// Reads the settings again and takes over what can change; says what changed and what needs a
// restart. With a mistake nothing changes.
void reload(Config& config, const ReloadConfig& reload_config, const ReloadTargets& targets);

}  // namespace weir::server
