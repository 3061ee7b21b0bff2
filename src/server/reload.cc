#include "server/reload.h"

#include <fmt/format.h>

#include <cstdio>
#include <stdexcept>
#include <vector>

#include "command_line/print_error.h"
#include "platform/standard_error.h"
#include "server/data_folder.h"

namespace weir::server {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void send_log_to(const std::string& path) {
  const std::string error = platform::redirect_stderr(path);
  if (!error.empty()) {
    throw std::runtime_error(fmt::format("log is '{}': it is not writable: {}", path, error));
  }
}

void log_certificate(const frontends::TlsContext& tls) {
  command_line::print_error("weir: new certificate loaded: {}\n", tls.certificate());
}

// Copies the recorded text of a setting.
void copy_given(const std::string& name, const Config& from, Config& to) {
  const auto given = from.given.find(name);
  if (given == from.given.end()) {
    to.given.erase(name);
  } else {
    to.given[name] = given->second;
  }
}

}  // namespace

void open_log(const std::string& path) {
  if (!path.empty()) send_log_to(path);
}

void reopen_log(const std::string& path) {
  try {
    open_log(path);
  } catch (const std::runtime_error& error) {
    command_line::print_error("weir: {}\n", error.what());
  }
}

void check_certificate(frontends::TlsContext& tls) {
  const frontends::TlsContext::Checked checked = tls.check_files();
  if (checked.loaded) {
    log_certificate(tls);
  } else if (checked.error) {
    command_line::print_error("weir: {}; {}. The old certificate stays in use: {}\n",
                              checked.error->detail, checked.error->fix, tls.certificate());
  }
}

void reload(Config& config, const ReloadConfig& reload_config, const ReloadTargets& targets) {
  const std::optional<Config> fresh = reload_config();
  try {
    if (fresh) {
      if (fresh->log != config.log) send_log_to(fresh->log);
      config.log = fresh->log;
      if (targets.tls != nullptr && fresh->uses_tls()) {
        const std::string before = targets.tls->certificate();
        if (const auto error = targets.tls->reload(fresh->tls)) {
          throw std::runtime_error(error->detail + "; " + error->fix);
        }
        config.tls = fresh->tls;
        if (targets.tls->certificate() != before) log_certificate(*targets.tls);
      }
      if (targets.key_is_in_folder) targets.keys.replace(read_root_key(config.data));
    }
  } catch (const std::runtime_error& error) {
    command_line::print_error("weir: {}\nweir: the other settings did not change\n", error.what());
    return;
  }
  if (!fresh) {
    command_line::print_error("weir: the settings did not change\n");
    return;
  }
  std::vector<std::string> changed = changed_settings(config, *fresh, true);
  const std::vector<std::string> restart = changed_settings(config, *fresh, false);
  targets.limiter.set_on_origin_loss(fresh->on_origin_loss);
  config.on_origin_loss = fresh->on_origin_loss;
  targets.limiter.set_consistency(fresh->consistency);
  config.consistency = fresh->consistency;
  targets.namespaces.replace(fresh->namespace_consistency);
  config.namespace_consistency = fresh->namespace_consistency;
  targets.check_rules.replace(fresh->check);
  config.check = fresh->check;
  if (fresh->namespaces != config.namespaces) changed.emplace_back(kNamespacesSection);
  targets.catalog.configure(fresh->namespaces);
  config.namespaces = fresh->namespaces;
  for (const std::string& name : changed) copy_given(name, *fresh, config);
  command_line::print_error("weir: settings reloaded; changed: {}{}\n",
                            changed.empty() ? "nothing" : joined(changed),
                            restart.empty() ? "" : "; restart to apply: " + joined(restart));
}

}  // namespace weir::server
