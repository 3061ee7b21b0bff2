// Changes to a running server: live settings, the root key, and the log file.

#pragma once

#include <string>

#include "catalog/catalog.h"
#include "frontends/http/check_rules.h"
#include "frontends/namespace_consistency.h"
#include "frontends/tls_context.h"
#include "rules/root_keys.h"
#include "server/config.h"
#include "server/serve.h"
#include "weir/limiter.h"

namespace weir::server {

// Redirects the log to a file; an empty path does nothing. Throws std::runtime_error if the file is
// not writable.
void open_log(const std::string& path);

// Reopens a rotated log file. Logs an error and keeps the old file if that fails.
void reopen_log(const std::string& path);

// The objects that a reload changes.
struct ReloadTargets {
  Limiter& limiter;
  frontends::NamespaceConsistency& namespaces;
  frontends::LiveCheckRules& check_rules;
  catalog::Catalog& catalog;
  rules::RootKeys& keys;
  bool key_is_in_folder = false;
  frontends::TlsContext* tls = nullptr;  // null: no TLS
};

// Loads a changed certificate, and logs it. If it is invalid, logs why and keeps the old one.
void check_certificate(frontends::TlsContext& tls);

// Reads the settings again and applies the live ones; logs what changed and what needs a restart.
// An error changes nothing.
void reload(Config& config, const ReloadConfig& reload_config, const ReloadTargets& targets);

}  // namespace weir::server
