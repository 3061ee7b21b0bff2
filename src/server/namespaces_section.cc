#include "server/namespaces_section.h"

#include "decide/validate.h"
#include "server/yaml_map.h"

namespace weir::server {
namespace {

// The request as the limiter will see it. Its field names are those of the section.
void check_values(const catalog::LimitValues& values, YamlMap& section) {
  Request request{.ns = "x", .identifier = "x", .limit = 1, .duration = kMinDuration};
  if (values.limit) request.limit = *values.limit;
  if (values.duration) request.duration = *values.duration;
  if (values.algorithm) request.algorithm = *values.algorithm;
  request.burst = values.burst;
  request.consistency = values.consistency;
  if (const auto error = decide::find_error(request)) {
    section.add(section.mark_of_entry(error->field),
                fmt::format("{}: {}", error->detail, error->fix));
  }
}

catalog::LimitValues read_values(const YamlMap::Entry& entry, const std::string& name,
                                 Problems& problems) {
  constexpr std::string_view kNames[] = {"limit", "duration", "algorithm", "burst", "consistency"};
  const size_t before = problems.size();
  YamlMap section(entry.value, entry.name, fmt::format("the namespace {}", name), kNames, problems);
  const catalog::LimitValues values = read_limit_values(section);
  if (problems.size() != before) return values;
  if (section.find("limit") != nullptr) section.require("duration");
  if (section.find("duration") != nullptr) section.require("limit");
  if (problems.size() == before) check_values(values, section);
  return values;
}

}  // namespace

void read_namespaces_section(const YAML::Node& node, catalog::ConfiguredNamespaces& namespaces,
                             Problems& problems) {
  YamlMap section(node, node.Mark(), "namespaces", {}, problems);
  for (const auto& [name, entry] : section.entries()) {
    if (name.empty() || name.size() > kMaxNameBytes) {
      section.add(entry.name, fmt::format("a name has {} bytes: it must have 1 to {}", name.size(),
                                          kMaxNameBytes));
    } else {
      namespaces[name] = read_values(entry, name, problems);
    }
  }
}

}  // namespace weir::server
