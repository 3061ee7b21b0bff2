// Reads regions, nodes, delays and clocks.

#include <fmt/format.h>

#include <algorithm>

#include "sim/scenario/scenario_parts.h"

namespace weir::sim {
namespace {

constexpr Range<Millis> kDelays{Millis(0), Millis(60'000)};
constexpr uint64_t kMostRegions = 1000;
constexpr uint64_t kMostNodes = 10'000;

const RegionPlan* find_region(const Scenario& scenario, std::string_view name) {
  for (const RegionPlan& region : scenario.regions) {
    if (region.name == name) return &region;
  }
  return nullptr;
}

Range<Millis> read_delay(const YamlValue& value) {
  return value.range([](const YamlValue& one) { return one.duration(kDelays); });
}

// Defaults for regions that do not give their own.
void read_distances(const YamlMap& world, std::vector<RegionPlan>& regions) {
  if (const auto value = world.find("to_origin")) {
    for (RegionPlan& region : regions) region.to_origin = read_delay(*value);
  }
  const auto value = world.find("to_ledger");
  if (!value) return;
  if (!value->is_map() || YamlMap(*value, {"from", "to", "first", "last"}).find("from")) {
    for (RegionPlan& region : regions) region.to_ledger = read_delay(*value);
    return;
  }
  const YamlMap ends(*value, {"first", "last"});
  const Millis first = ends.at("first").duration(kDelays);
  const Millis last = ends.at("last").duration(kDelays);
  const auto steps = static_cast<int64_t>(std::max<size_t>(2, regions.size()) - 1);
  for (size_t i = 0; i < regions.size(); ++i) {
    const Millis delay = first + (last - first) * static_cast<int64_t>(i) / steps;
    regions[i].to_ledger = {delay, delay};
  }
}

void deal_nodes(const YamlMap& world, Scenario& scenario) {
  const uint64_t count = world.at("regions").whole({1, kMostRegions});
  const auto nodes = world.find("nodes");
  const uint64_t all = nodes ? nodes->whole({count, kMostNodes}) : count;
  for (uint64_t i = 0; i < count; ++i) {
    scenario.regions.push_back(
        {.name = fmt::format("r{}", i),
         .nodes = static_cast<uint32_t>(all / count + (i < all % count ? 1 : 0))});
  }
  read_distances(world, scenario.regions);
}

void read_listed_regions(const YamlMap& world, Scenario& scenario) {
  world.refuse("nodes", "each region of the list says how many it has");
  const YamlValue list = world.at("regions");
  const auto items = list.items();
  if (items.empty()) list.fail("is empty: there must be a region");
  if (items.size() > kMostRegions) list.fail(fmt::format("has more than {}", kMostRegions));
  std::vector<RegionPlan> usual(items.size());
  read_distances(world, usual);
  uint64_t nodes = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const YamlMap map(items[i], {"name", "nodes", "to_origin", "to_ledger"});
    RegionPlan region = usual[i];
    region.name = map.at("name").name();
    if (find_region(scenario, region.name) != nullptr) {
      map.at("name").fail_word("is the name of another region");
    }
    if (const auto value = map.find("nodes")) {
      region.nodes = static_cast<uint32_t>(value->whole({1, kMostNodes}));
    }
    nodes += region.nodes;
    if (nodes > kMostNodes) map.fail(fmt::format("makes more than {} nodes", kMostNodes));
    if (const auto value = map.find("to_origin")) region.to_origin = read_delay(*value);
    if (const auto value = map.find("to_ledger")) region.to_ledger = read_delay(*value);
    scenario.regions.push_back(std::move(region));
  }
}

ClockShape read_clock(const YamlValue& value, const Scenario& scenario) {
  using Kind = ClockShape::Kind;
  const YamlMap map(value, {"shape", "where", "by", "every", "ppm"});
  ClockShape clock;
  clock.kind = static_cast<Kind>(map.at("shape").choice(clock_words()));
  if (const auto where = map.find("where")) {
    clock.where = read_where(*where, scenario, FaultScope::kNode);
  }
  if (clock.kind == Kind::kSteady || clock.kind == Kind::kStepping) {
    map.refuse("ppm", "only drifting and sawtooth clocks gain");
    const Millis least = clock.kind == Kind::kSteady ? -kDay : Millis(1);
    clock.by = map.at("by").duration({least, kDay});
  } else {
    map.refuse("by", "only steady and stepping clocks are off by an amount");
    constexpr int64_t kFastest = 100'000;
    clock.parts_per_million = map.at("ppm").whole_signed({-kFastest, kFastest});
  }
  if (clock.kind == Kind::kSteady || clock.kind == Kind::kDrifting) {
    map.refuse("every", "only stepping and sawtooth clocks are set");
  } else if (const auto every = map.find("every")) {
    clock.every = every->duration(kSpan);
  }
  return clock;
}

}  // namespace

void read_world(const YamlValue& value, Scenario& scenario) {
  const YamlMap world(value, {"regions", "nodes", "to_origin", "to_ledger", "clocks"});
  if (world.at("regions").is_list()) {
    read_listed_regions(world, scenario);
  } else {
    deal_nodes(world, scenario);
  }
  if (const auto clocks = world.find("clocks")) {
    for (const YamlValue& clock : clocks->items()) {
      scenario.clocks.push_back(read_clock(clock, scenario));
    }
  }
}

std::string read_region(const YamlValue& value, const Scenario& scenario) {
  std::vector<std::string_view> names;
  for (const RegionPlan& region : scenario.regions) names.push_back(region.name);
  return std::string(names[value.choice(names)]);
}

std::string read_where(const YamlValue& value, const Scenario& scenario, FaultScope most) {
  if (most == FaultScope::kNowhere) value.fail("leave it out: there is one ledger for all");
  const std::string& text = value.word("a region, or region/node");
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return read_region(value, scenario);
  if (most == FaultScope::kRegion) value.fail_word("is a node; name a region");
  const RegionPlan* region = find_region(scenario, std::string_view(text).substr(0, slash));
  if (region == nullptr) value.fail_word("names no region before its '/'");
  const std::string number = text.substr(slash + 1);
  for (uint32_t node = 0; node < region->nodes; ++node) {
    if (number == std::to_string(node)) return text;
  }
  value.fail_word(
      fmt::format("names no node: {} has {}, counted from 0", region->name, region->nodes));
}

}  // namespace weir::sim
