// Reads the limits and the traffic of a scenario.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/scenario/scenario_parts.h"

namespace weir::sim {
namespace {

constexpr uint64_t kMostKeys = 10'000'000;
// gcra and token_bucket are exact up to this limit and burst, at any duration.
constexpr uint64_t kMostPaced = uint64_t{1} << 29;

void read_demand(const YamlMap& map, StreamPlan& stream) {
  constexpr Range<double> kLimits{0.001, 10'000};
  constexpr Range<double> kRequests{0.001, 1e9};
  const auto demand = map.find("demand");
  const auto requests = map.find("requests");
  if (stream.shape == Shape::kLockStep || is_scripted(stream.shape)) {
    const std::string_view reason = stream.shape == Shape::kLockStep
                                        ? "'clients' and 'every' define the requests of lock_step"
                                        : "the limit defines its requests";
    map.refuse("demand", reason);
    map.refuse("requests", reason);
  } else if (stream.shape == Shape::kFresh) {
    map.refuse("demand",
               "each fresh key gets one request; give the number of 'requests' per window");
    if (!requests) map.fail("requests is missing");
  } else if (demand.has_value() == requests.has_value()) {
    map.fail(fmt::format("{} 'demand', in limits per window, or 'requests' per window",
                         demand ? "has both; leave out" : "has no amount; give"));
  }
  if (demand) {
    stream.demand = demand->range([&](const YamlValue& one) { return one.number(kLimits); });
  }
  if (requests) {
    stream.unit = StreamPlan::Unit::kRequests;
    stream.demand = requests->range([&](const YamlValue& one) { return one.number(kRequests); });
  }
  if (const auto cost = map.find("cost")) {
    stream.cost = cost->range([](const YamlValue& one) { return one.whole({0, kMaxLimit}); });
  }
}

// Keys and regions.
void read_users(const YamlMap& map, const Scenario& scenario, StreamPlan& stream) {
  if (stream.shape == Shape::kFresh) map.refuse("keys", "fresh keys are as many as requests");
  if (const auto keys = map.find("keys")) stream.keys = keys->whole({1, kMostKeys});
  size_t most = scenario.regions.size();
  if (const auto regions = map.find("regions")) {
    for (const YamlValue& each : regions->items()) {
      std::string name = read_region(each, scenario);
      const auto& all = stream.regions;
      if (std::find(all.begin(), all.end(), name) != all.end()) each.fail_word("is named twice");
      stream.regions.push_back(std::move(name));
    }
    if (stream.regions.empty()) regions->fail("is empty; leave it out for all regions");
    most = stream.regions.size();
  }
  if (const auto spread = map.find("spread")) {
    stream.spread = spread->range([&](const YamlValue& one) {
      return static_cast<uint32_t>(one.whole({1, most}));
    });
  }
  const bool alone = stream.spread ? stream.spread->to < 2 : most < 2;
  if (alone && (stream.shape == Shape::kHopping || is_scripted(stream.shape))) {
    map.at("shape").fail_word("needs two regions or more");
  }
}

// Times.
void read_pace(const YamlMap& map, const Scenario& scenario, StreamPlan& stream) {
  const auto is = [&](std::initializer_list<Shape> shapes) {
    return std::find(shapes.begin(), shapes.end(), stream.shape) != shapes.end();
  };
  if (is({Shape::kOnOff})) {
    if (const auto value = map.find("on")) stream.on = value->duration(kSpan);
    if (const auto value = map.find("off")) stream.off = value->duration(kSpan);
  } else {
    map.refuse("on", "only on_off has it");
    map.refuse("off", "only on_off has it");
  }
  if (is({Shape::kLockStep, Shape::kDiurnal, Shape::kHopping})) {
    if (const auto value = map.find("every")) stream.every = value->duration(kSpan);
  } else {
    map.refuse("every", "only lock_step, diurnal and hopping have it");
  }
  if (is({Shape::kLockStep})) {
    if (const auto value = map.find("clients")) {
      stream.clients = static_cast<uint32_t>(value->whole({1, 1'000'000}));
    }
  } else {
    map.refuse("clients", "only lock_step has them");
  }
  if (const auto value = map.find("begins")) {
    stream.begins = read_instant(*value, scenario);
  }
  if (const auto value = map.find("ends")) {
    stream.ends = value->duration({Millis(0), 2 * kDay});
    if (*stream.ends > end_of(scenario)) fail_beyond_end(*value, scenario);
    if (*stream.ends <= stream.begins) value->fail_word("is not after it begins");
  }
}

}  // namespace

LimitPlan read_limit(const YamlValue& value, const Scenario& scenario) {
  const YamlMap map(value, {"name", "limit", "duration", "algorithm", "burst"});
  LimitPlan limit;
  limit.name = map.at("name").name();
  for (const LimitPlan& other : scenario.limits) {
    if (other.name == limit.name) map.at("name").fail_word("is the name of another limit");
  }
  if (const auto algorithm = map.find("algorithm")) {
    std::array<std::string_view, kAlgorithmCount> words;
    for (size_t i = 0; i < words.size(); ++i) words[i] = to_string(static_cast<Algorithm>(i));
    limit.algorithm = static_cast<Algorithm>(algorithm->choice(words));
  }
  const bool paced =
      limit.algorithm == Algorithm::kGcra || limit.algorithm == Algorithm::kTokenBucket;
  uint64_t most = kMaxLimit;
  if (paced) most = kMostPaced;
  if (limit.algorithm == Algorithm::kSlidingLog) most = kMaxLogLimit;
  limit.limit = map.at("limit").range([&](const YamlValue& one) { return one.whole({1, most}); });
  limit.duration = map.at("duration").duration({kMinDuration, kMaxDuration});
  if (!paced) {
    map.refuse("burst", "only gcra and token_bucket have one");
  } else if (const auto burst = map.find("burst")) {
    limit.burst = burst->whole({1, kMostPaced});
  }
  return limit;
}

StreamPlan read_stream(const YamlValue& value, const Scenario& scenario) {
  const YamlMap map(value, {"limit", "shape", "keys", "demand", "requests", "cost", "regions",
                            "spread", "on", "off", "every", "clients", "begins", "ends"});
  StreamPlan stream;
  std::vector<std::string_view> limits;
  for (const LimitPlan& limit : scenario.limits) limits.push_back(limit.name);
  stream.limit = limits[map.at("limit").choice(limits)];
  stream.shape = static_cast<Shape>(map.at("shape").choice(shape_words()));
  read_demand(map, stream);
  read_users(map, scenario, stream);
  read_pace(map, scenario, stream);
  return stream;
}

double requests_of(const StreamPlan& stream, const Scenario& scenario) {
  const auto millis = [](Millis span) { return static_cast<double>(span.count()); };
  const double span = millis(stream.ends.value_or(end_of(scenario)) - stream.begins);
  const auto keys = static_cast<double>(stream.keys);
  if (stream.shape == Shape::kLockStep) {
    return keys * stream.clients * span / millis(stream.every);
  }
  const auto plan =
      std::find_if(scenario.limits.begin(), scenario.limits.end(),
                   [&](const LimitPlan& limit) { return limit.name == stream.limit; });
  const double windows = span / millis(plan->duration);
  const double demand = (stream.demand.from + stream.demand.to) / 2;
  if (stream.unit == StreamPlan::Unit::kRequests) return keys * windows * demand;
  const auto least = static_cast<double>(plan->limit.from);
  const auto most = static_cast<double>(plan->limit.to);
  // The mean of a value drawn evenly over octaves.
  const double limit = least == most ? least : (most - least) / std::log(most / least);
  return keys * windows * demand * limit;
}

}  // namespace weir::sim
