// One function for each part of a scenario file; only scenario_file.cc calls them.
//
// `scenario` contains the parts that were read before. Each function throws WrongValue at the first
// error.

#pragma once

#include <string>

#include "sim/scenario/scenario.h"
#include "sim/scenario/scenario_words.h"
#include "sim/scenario/yaml_value.h"

namespace weir::sim {

inline constexpr Millis kDay{24 * 3600 * 1000};
inline constexpr Range<Millis> kSpan{Millis(1), kDay};

// scenario_world.cc
void read_world(const YamlValue& value, Scenario& scenario);
[[nodiscard]] std::string read_region(const YamlValue& value, const Scenario& scenario);
// A region, or region/node where a node is allowed.
[[nodiscard]] std::string read_where(const YamlValue& value, const Scenario& scenario,
                                     FaultScope most);

// scenario_settings.cc
[[nodiscard]] FleetSettings read_settings(const YamlValue& value);

// scenario_traffic.cc
[[nodiscard]] LimitPlan read_limit(const YamlValue& value, const Scenario& scenario);
[[nodiscard]] StreamPlan read_stream(const YamlValue& value, const Scenario& scenario);
// The approximate number of requests.
[[nodiscard]] double requests_of(const StreamPlan& stream, const Scenario& scenario);

// scenario_faults.cc
[[nodiscard]] FaultPlan read_fault(const YamlValue& value, const Scenario& scenario);
[[nodiscard]] FaultRate read_random_fault(const YamlValue& value);

// scenario_file.cc
// The end of all traffic and all faults.
[[nodiscard]] inline Millis end_of(const Scenario& scenario) {
  return scenario.warm_up + scenario.measured;
}
// Before that end.
[[nodiscard]] Millis read_instant(const YamlValue& value, const Scenario& scenario);
[[noreturn]] void fail_beyond_end(const YamlValue& value, const Scenario& scenario);

}  // namespace weir::sim
