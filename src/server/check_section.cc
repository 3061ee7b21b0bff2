#include "server/check_section.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "decide/validate.h"
#include "frontends/http/normal_path.h"
#include "server/config_values.h"
#include "server/yaml_map.h"

namespace weir::server {
namespace {

using frontends::CheckMatch;
using frontends::CheckRule;
using frontends::CheckRules;

bool is_token(const std::string& text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), fits);
}

std::string upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  }
  return text;
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return text;
}

std::string read_path(const std::string& text, CheckMatch& match) {
  match.path_is_prefix = text.ends_with('*');
  match.path = text.substr(0, text.size() - (match.path_is_prefix ? 1 : 0));
  std::string normal;
  frontends::normalize_path(match.path, normal);
  if (match.path == normal) return {};
  return fmt::format("must be a path in normal form, like '{}'",
                     normal + (match.path_is_prefix ? "*" : ""));
}

void read_match(const YamlMap::Entry& entry, CheckMatch& match, Problems& problems) {
  constexpr std::string_view kNames[] = {"method", "path", "host", "headers"};
  YamlMap section(entry.value, entry.name, "match", kNames, problems);
  section.list("method", [&](const std::string& text) -> std::string {
    if (!is_token(text)) return "must be a method, like POST";
    match.methods.push_back(upper(text));
    return {};
  });
  section.value("path", [&](const std::string& text) { return read_path(text, match); });
  section.value("host", [&](const std::string& text) -> std::string {
    const bool port = text.find(':') != std::string::npos && !text.ends_with(']');
    if (text.empty() || port || text.ends_with('.') || text.find_first_of("/* \t") != text.npos) {
      return "must be a host name without a port, like api.example.com";
    }
    match.host = lower(text);
    return {};
  });
  const YamlMap::Entry* const headers = section.find("headers");
  if (headers == nullptr) return;
  YamlMap values(headers->value, headers->name, "headers", {}, problems);
  for (const auto& [name, value] : values.entries()) {
    if (!is_token(name)) {
      values.add(value.name, fmt::format("'{}' is not the name of a header", name));
    } else if (!value.value.IsScalar()) {
      values.add(value.mark(), fmt::format("{} must be a single value; \"\" if the header must be "
                                           "missing",
                                           name));
    } else {
      match.headers.emplace_back(lower(name), value.value.Scalar());
    }
  }
}

// The request as the limiter will see it. Its field names are those of the section.
void check_request(const CheckRule& rule, YamlMap& section) {
  if (const auto error = decide::find_error(rule.request("x"))) {
    const std::string name = error->field == "on_origin_loss" ? "on-origin-loss" : error->field;
    return section.add(section.mark_of_entry(name),
                       fmt::format("{}: {}", error->detail, error->fix));
  }
  if (const Count most = rule.burst.value_or(rule.limit); rule.cost > most) {
    section.add(section.mark_of_entry("cost"),
                fmt::format("cost is {}, but {} admits at most {} at once: choose a smaller cost",
                            rule.cost, rule.burst ? "burst" : "limit", most));
  }
}

void read_rule(const YAML::Node& node, const YAML::Mark& list, CheckRule& rule,
               Problems& problems) {
  constexpr std::string_view kNames[] = {"name",  "match",       "namespace",     "identifier",
                                         "limit", "duration",    "cost",          "algorithm",
                                         "burst", "consistency", "on-origin-loss"};
  const size_t before = problems.size();
  YamlMap section(node, list, "a rule", kNames, problems);
  if (!node.IsMap()) return;
  for (const std::string_view name : {"name", "identifier", "limit", "duration"}) {
    section.require(name);
  }
  section.value("name", [&](const std::string& text) { return read_name(text, rule.name); });
  rule.ns = rule.name;
  section.value("namespace", [&](const std::string& text) -> std::string {
    if (text.empty() || text.size() > kMaxNameBytes) {
      return fmt::format("must have 1 to {} bytes", kMaxNameBytes);
    }
    rule.ns = text;
    return {};
  });
  if (const YamlMap::Entry* const match = section.find("match")) {
    read_match(*match, rule.match, problems);
  }
  section.value("identifier", [&](const std::string& text) {
    return frontends::parse_identifier(text, rule.identifier);
  });
  const catalog::LimitValues values = read_limit_values(section);
  rule.limit = values.limit.value_or(rule.limit);
  rule.duration = values.duration.value_or(rule.duration);
  rule.burst = values.burst;
  rule.algorithm = values.algorithm.value_or(rule.algorithm);
  rule.consistency = values.consistency;
  section.value("cost", [&](const std::string& text) {
    return assign(text, {0, kMaxLimit}, rule.cost);
  });
  section.value("on-origin-loss", [&](const std::string& text) {
    return read_choice(text, on_origin_loss_from, "local, deny or share", rule.on_origin_loss);
  });
  if (problems.size() == before) check_request(rule, section);
}

void read_rules(const YamlMap::Entry& entry, CheckRules& rules, YamlMap& section,
                Problems& problems) {
  if (!entry.value.IsSequence()) {
    return section.add(entry.mark(), "rules must be a list: begin each rule with '- name: ...'");
  }
  if (entry.value.size() > frontends::kMaxCheckRules) {
    return section.add(entry.mark(), fmt::format("rules has {} rules: it must have at most {}",
                                                 entry.value.size(), frontends::kMaxCheckRules));
  }
  std::set<std::string> names;
  for (const auto& node : entry.value) {
    CheckRule rule;
    read_rule(node, entry.mark(), rule, problems);
    if (!rule.name.empty() && !names.insert(rule.name).second) {
      section.add(mark_of(node, entry.mark()),
                  fmt::format("name is '{}', as of another rule: choose another name", rule.name));
    }
    rules.rules.push_back(std::move(rule));
  }
}

}  // namespace

void read_check_section(const YAML::Node& node, CheckRules& rules, Problems& problems) {
  constexpr std::string_view kNames[] = {"denied-status", "trusted-proxies", "address-header",
                                         "ipv6-prefix", "rules"};
  const auto before = static_cast<std::ptrdiff_t>(problems.size());
  YamlMap section(node, node.Mark(), "check", kNames, problems);
  section.value("denied-status", [&](const std::string& text) -> std::string {
    if (text != "403" && text != "429") return "must be 403 or 429";
    rules.denied_status = text == "403" ? 403 : 429;
    return {};
  });
  section.list("trusted-proxies", [&](const std::string& text) -> std::string {
    const auto network = frontends::parse_network(text);
    if (!network && text != "unix") {
      return "must be an address or a network without host bits, like 127.0.0.1, 10.0.0.0/8 or "
             "2001:db8::/32, or unix";
    }
    if (network) rules.address.trusted_proxies.push_back(*network);
    if (!network) rules.address.trust_unix = true;
    return {};
  });
  section.value("address-header", [&](const std::string& text) -> std::string {
    if (text != "x-forwarded-for" && text != "forwarded") {
      return "must be x-forwarded-for or forwarded";
    }
    rules.address.header = text == "forwarded" ? frontends::AddressHeader::kForwarded
                                               : frontends::AddressHeader::kXForwardedFor;
    return {};
  });
  section.value("ipv6-prefix", [&](const std::string& text) {
    return assign(text, {32, 128}, rules.address.ipv6_prefix);
  });
  if (const YamlMap::Entry* const entry = section.find("rules")) {
    read_rules(*entry, rules, section, problems);
  }
  std::stable_sort(problems.begin() + before, problems.end(),
                   [](const ConfigProblem& a, const ConfigProblem& b) {
                     return std::pair(a.line, a.column) < std::pair(b.line, b.column);
                   });
}

}  // namespace weir::server
