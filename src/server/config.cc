#include "server/config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "decide/validate.h"
#include "server/check_section.h"
#include "server/namespaces_section.h"

namespace weir::server {
namespace {

std::string known_names() {
  std::string names;
  for (const Setting& setting : settings()) {
    names += (names.empty() ? "" : ", ") + setting.name;
  }
  return names + ", " + kCheckSection + ", " + kNamespacesSection;
}

ConfigProblem at(const YAML::Mark& mark, std::string text) {
  return {.line = mark.line + 1, .column = mark.column + 1, .text = std::move(text)};
}

}  // namespace

std::vector<ConfigProblem> read_environment(const FindVariable& get, Config& config) {
  std::vector<ConfigProblem> problems;
  for (const Setting& setting : settings()) {
    const std::string variable = variable_of(setting);
    const char* const value = get(variable);
    if (value == nullptr || *value == '\0') continue;
    const std::string error = apply(config, setting, value);
    if (error.empty()) continue;
    problems.push_back({.text = setting.secret
                                    ? fmt::format("{} {}", variable, error)
                                    : fmt::format("{} is '{}': it {}", variable, value, error)});
  }
  return problems;
}

std::vector<ConfigProblem> read_config(const std::string& path, Config& config) {
  std::ifstream file(path);
  std::stringstream text;
  file.peek();  // a folder opens, but fails to read
  if (file.good()) text << file.rdbuf();
  if (!file.is_open() || file.bad())
    return {{.text = "cannot be read: check that it exists and is readable"}};
  // A save that failed, or that has begun: without the rules of the file all requests would pass.
  if (text.str().find_first_not_of(" \t\r\n") == std::string::npos) {
    return {
        {.text = "is empty: restore its settings, or write a comment into it for the defaults"}};
  }
  return read_config_text(text.str(), config);
}

std::vector<ConfigProblem> read_config_text(const std::string& yaml, Config& config) {
  YAML::Node root;
  try {
    root = YAML::Load(yaml);
  } catch (const YAML::Exception& error) {
    return {at(error.mark, "not valid YAML: " + error.msg)};
  }
  if (root.IsNull()) return {};
  if (!root.IsMap()) return {at(root.Mark(), "must be settings, one 'name: value' per line")};
  std::vector<ConfigProblem> problems;
  std::set<std::string> seen;
  for (const auto& pair : root) {
    const std::string name = pair.first.IsScalar() ? pair.first.Scalar() : "?";
    const auto setting = std::find_if(settings().begin(), settings().end(),
                                      [&](const Setting& known) { return known.name == name; });
    const bool is_section = name == kCheckSection || name == kNamespacesSection;
    if (setting == settings().end() && !is_section) {
      problems.push_back(
          at(pair.first.Mark(),
             fmt::format("'{}' is not a setting; the settings are {}", name, known_names())));
      continue;
    }
    if (!seen.insert(name).second) {
      problems.push_back(at(pair.first.Mark(), fmt::format("{} is given twice", name)));
      continue;
    }
    if (is_section && pair.second.IsNull()) {
      problems.push_back(
          at(pair.first.Mark(), fmt::format("{} is empty: add {}", name,
                                            name == kCheckSection ? "rules" : "namespaces")));
    } else if (name == kCheckSection) {
      read_check_section(pair.second, config.check, problems);
    } else if (name == kNamespacesSection) {
      read_namespaces_section(pair.second, config.namespaces, problems);
    }
    if (is_section) continue;
    if (!pair.second.IsScalar()) {
      // A missing value has no position of its own.
      const YAML::Mark mark = pair.second.IsNull() ? pair.first.Mark() : pair.second.Mark();
      problems.push_back(at(mark, fmt::format("{} must be a single value", name)));
      continue;
    }
    const std::string value = pair.second.Scalar();
    const std::string error = apply(config, *setting, value);
    if (!error.empty()) {
      problems.push_back(at(pair.second.Mark(), describe_error(*setting, value, error)));
    }
  }
  return problems;
}

bool is_loopback(const Address& address) {
  return address.host.starts_with("127.") || address.host == "::1";
}

namespace {

// The error of the settings for TLS; empty: none.
std::string find_tls_conflict(const Config& config) {
  const frontends::TlsSettings& tls = config.tls;
  if (!config.uses_tls()) {
    if (tls.cert.empty() && tls.key.empty() && tls.client_ca.empty()) return {};
    return fmt::format("{} is given, but https and resps are off: set an address for one of them",
                       !tls.cert.empty()  ? "tls-cert"
                       : !tls.key.empty() ? "tls-key"
                                          : "tls-client-ca");
  }
  if (tls.cert.empty() || tls.key.empty()) {
    return fmt::format(
        "{} is missing, but {} is '{}': name the PEM files of the certificate "
        "(tls-cert) and of its private key (tls-key)",
        tls.cert.empty() ? "tls-cert" : "tls-key", config.https ? "https" : "resps",
        to_string(config.https ? *config.https : *config.resps));
  }
  const auto context = frontends::TlsContext::create(tls);
  return context ? "" : fmt::format("{}; {}", context.error().detail, context.error().fix);
}

}  // namespace

std::string find_conflict(const Config& config) {
  if (!config.http && !config.resp && !config.uses_tls() && config.http_socket.empty() &&
      config.resp_socket.empty()) {
    return "http and resp are both off: set an address or a socket for one of them";
  }
  if (!config.http_socket.empty() && config.http_socket == config.resp_socket) {
    return fmt::format("http-socket and resp-socket are both '{}': use different paths",
                       config.http_socket);
  }
  const std::pair<const char*, const std::optional<Address>&> frontends[] = {
      {"http", config.http},
      {"resp", config.resp},
      {"https", config.https},
      {"resps", config.resps}};
  for (const auto& [name, address] : frontends) {
    if (address && !is_loopback(*address) && !config.allow_public) {
      return fmt::format(
          "{} is '{}', which is not a loopback address: add --allow-public, or use a loopback "
          "address",
          name, to_string(*address));
    }
  }
  for (const auto& [name, address] : {frontends[1], frontends[3]}) {
    if (!address || is_loopback(*address) || config.requires_resp_auth()) continue;
    return fmt::format(
        "resp-auth is off, but {} is '{}', which is not a loopback address: remove resp-auth, or "
        "use a loopback address",
        name, to_string(*address));
  }
  if (config.ledger_choice == LedgerChoice::kGiven && config.region.empty()) {
    return fmt::format(
        "region is missing, but the ledger {} can be shared: set --region, WEIR_REGION or region "
        "in the "
        "file, one name for all processes of a region",
        to_string(config.ledger));
  }
  if (const auto error = memory::error_in(config.memory_plan())) {
    return fmt::format("{}: {}", error->detail, error->fix);
  }
  for (const frontends::CheckRule& rule : config.check.rules) {
    Request request = rule.request("x");
    const auto level = config.namespace_consistency.find(rule.ns);
    if (request.consistency || level == config.namespace_consistency.end()) continue;
    request.consistency = level->second;
    if (const auto error = decide::find_error(request)) {
      return fmt::format("consistency is {} for the namespace '{}', but in the rule '{}' {}: {}",
                         to_string(level->second), rule.ns, rule.name, error->detail, error->fix);
    }
  }
  for (const auto& [name, address] : frontends) {
    for (const auto& [other, same] : frontends) {
      if (&same == &address) break;  // each pair once
      if (!address || address != same || address->port == 0) continue;
      return fmt::format("{} and {} are both '{}': use different ports", other, name,
                         to_string(*address));
    }
  }
  return find_tls_conflict(config);
}

}  // namespace weir::server
