#include "sim/scenario/scenario_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "sim/scenario/figures.h"
#include "sim/scenario/scenario_parts.h"

namespace weir::sim {
namespace {

constexpr double kMostRequests = 1e9;  // in a run: some hours of real time

std::string_view file_name_of(std::string_view file) {
  if (const size_t slash = file.rfind('/'); slash != std::string_view::npos) {
    file.remove_prefix(slash + 1);
  }
  for (const std::string_view end : {".yaml", ".yml"}) {
    if (file.ends_with(end)) file.remove_suffix(end.size());
  }
  return file;
}

void read_time(const YamlValue& all, Scenario& scenario) {
  const YamlMap time(all, {"warm_up", "measured", "calm"});
  if (const auto value = time.find("warm_up")) {
    scenario.warm_up = value->duration({Millis(0), kDay});
  }
  if (const auto value = time.find("measured")) {
    scenario.measured = value->duration({Millis(1000), kDay});
  }
  if (const auto value = time.find("calm")) scenario.calm = value->duration({Millis(0), kDay});
}

// "worst_cell <= 1.35"
Expectation read_expectation(const YamlValue& expectation) {
  constexpr std::array<std::string_view, 3> kRelations = {"<=", ">=", "=="};
  constexpr std::string_view kWanted = "an expectation such as worst_cell <= 1.35";
  std::string_view text = expectation.word(kWanted);
  std::array<std::string_view, 3> parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    parts[i] = i + 1 < parts.size() ? text.substr(0, text.find(' ')) : text;
    text.remove_prefix(parts[i].size());
  }
  auto [figure, relation, value] = parts;
  const FigureName* known = find_figure(figure);
  if (known == nullptr) {
    std::vector<std::string_view> keys;
    for (const FigureName& each : known_figures()) keys.push_back(each.key);
    expectation.fail_word("names a figure that is " + none_of(figure, keys));
  }
  const auto* found = std::find(kRelations.begin(), kRelations.end(), relation);
  if (found == kRelations.end()) {
    expectation.fail_word(fmt::format("is not {}: the relation is one of <=, >=, ==", kWanted));
  }
  const auto number = cut_number(value);
  if (!number || (!value.empty() && value != known->unit)) {
    expectation.fail_word(
        fmt::format("is not {}: a number{} must follow the relation", kWanted,
                    known->unit.empty() ? "" : fmt::format(" in {}", known->unit)));
  }
  return {.figure = std::string(figure),
          .relation = static_cast<Expectation::Relation>(found - kRelations.begin()),
          .value = *number};
}

// So many requests are a mistake in the file.
[[noreturn]] void fail_for_many(const YamlValue& stream, double requests) {
  stream.fail(
      fmt::format("makes {:.3g} requests in all, more than {:.0e}: reduce the traffic or the time",
                  requests, kMostRequests));
}

Scenario read_all(const YamlTree& tree, std::string_view file) {
  const YamlMap map(YamlValue(tree, ""), {"about", "seed", "time", "world", "settings", "limits",
                                          "traffic", "faults", "random_faults", "expect"});
  const auto each = [&](const std::optional<YamlValue>& list, auto& target, const auto& read) {
    if (!list) return;
    for (const YamlValue& item : list->items()) target.push_back(read(item));
  };
  Scenario scenario;
  scenario.name = file_name_of(file);
  scenario.about = map.at("about").word("a sentence or two");
  if (scenario.about.empty()) map.at("about").fail("must say what the scenario shows");
  if (const auto seed = map.find("seed")) {
    scenario.seed = seed->whole({0, std::numeric_limits<uint64_t>::max()});
  }
  if (const auto time = map.find("time")) read_time(*time, scenario);
  read_world(map.at("world"), scenario);
  if (const auto settings = map.find("settings")) scenario.settings = read_settings(*settings);
  each(map.at("limits"), scenario.limits,
       [&](const YamlValue& item) { return read_limit(item, scenario); });
  if (scenario.limits.empty()) map.at("limits").fail("is empty: at least one limit is needed");
  double requests = 0;
  each(map.at("traffic"), scenario.traffic, [&](const YamlValue& item) {
    StreamPlan stream = read_stream(item, scenario);
    requests += requests_of(stream, scenario);
    if (requests > kMostRequests) fail_for_many(item, requests);
    return stream;
  });
  if (scenario.traffic.empty()) map.at("traffic").fail("is empty: at least one stream is needed");
  each(map.find("faults"), scenario.faults,
       [&](const YamlValue& item) { return read_fault(item, scenario); });
  each(map.find("random_faults"), scenario.random_faults, read_random_fault);
  each(map.find("expect"), scenario.expect, read_expectation);
  return scenario;
}

std::string shown_change(const ScenarioChange& change) {
  return fmt::format("{}={}", change.path, change.value);
}

Error error_at(std::string_view file, const WrongValue& wrong,
               const std::vector<ScenarioChange>& changes) {
  std::string location(file);
  if (wrong.location.change >= 0) {
    location = shown_change(changes[static_cast<size_t>(wrong.location.change)]);
  } else if (wrong.location.line > 0) {
    location += fmt::format(":{}:{}", wrong.location.line, wrong.location.column);
  }
  const std::string path = wrong.path.empty() ? "" : wrong.path + ": ";
  std::string detail = fmt::format("{}: {}{}", location, path, wrong.text);
  // An error is one line, for any content of the file.
  const auto is_control = [](unsigned char c) { return c < ' ' || c == 0x7f; };
  std::replace_if(detail.begin(), detail.end(), is_control, '?');
  return {.field = wrong.path, .detail = std::move(detail)};
}

}  // namespace

Millis read_instant(const YamlValue& value, const Scenario& scenario) {
  const Millis instant = value.duration({Millis(0), 2 * kDay});
  if (instant >= end_of(scenario)) fail_beyond_end(value, scenario);
  return instant;
}

void fail_beyond_end(const YamlValue& value, const Scenario& scenario) {
  value.fail_word(fmt::format("is beyond the end of what is measured, {} after the beginning",
                              in_words(end_of(scenario))));
}

Result<Scenario> read_scenario(std::string_view text, std::string_view file,
                               const std::vector<ScenarioChange>& changes) {
  const auto refuse = [&](YamlLocation location, std::string what) {
    return error_at(file, {.location = location, .path = "", .text = std::move(what)}, changes);
  };
  YamlTree tree;
  YamlProblem problem;
  if (!read_yaml(text, tree, problem)) return refuse(problem.location, problem.text);
  if (tree.kind != YamlTree::Kind::kMap) {
    return refuse(tree.location, "is no scenario: one has about, world, limits and traffic");
  }
  for (size_t i = 0; i < changes.size(); ++i) {
    const YamlLocation location{.change = static_cast<int>(i)};
    YamlTree value;
    if (!read_yaml(changes[i].value, value, problem)) return refuse(location, problem.text);
    std::string wrong = put_yaml(tree, changes[i].path, std::move(value), location.change);
    if (!wrong.empty()) return refuse(location, fmt::format("'{}' {}", changes[i].path, wrong));
  }
  try {
    return read_all(tree, file);
  } catch (const WrongValue& wrong) {
    return error_at(file, wrong, changes);
  }
}

}  // namespace weir::sim
