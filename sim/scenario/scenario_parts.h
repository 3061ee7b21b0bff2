// The parts of a scenario's file, one function each; only scenario_file.cc calls them.
//
// `scenario` is what was read before: a part may name only what stands there. Each throws
// WrongValue at the first thing that is wrong.

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
// A region, or region/node where that may be.
[[nodiscard]] std::string read_where(const YamlValue& value, const Scenario& scenario,
                                     FaultScope most);

// scenario_settings.cc
[[nodiscard]] FleetSettings read_settings(const YamlValue& value);

// scenario_traffic.cc
[[nodiscard]] LimitPlan read_limit(const YamlValue& value, const Scenario& scenario);
[[nodiscard]] StreamPlan read_stream(const YamlValue& value, const Scenario& scenario);
// How many requests it will make, about.
[[nodiscard]] double requests_of(const StreamPlan& stream, const Scenario& scenario);

// scenario_faults.cc
[[nodiscard]] FaultPlan read_fault(const YamlValue& value, const Scenario& scenario);
[[nodiscard]] FaultRate read_random_fault(const YamlValue& value);

// scenario_file.cc
// When all traffic ends, and with it all faults.
[[nodiscard]] inline Millis end_of(const Scenario& scenario) {
  return scenario.warm_up + scenario.measured;
}
// Before that end.
[[nodiscard]] Millis read_instant(const YamlValue& value, const Scenario& scenario);
[[noreturn]] void fail_beyond_end(const YamlValue& value, const Scenario& scenario);

}  // namespace weir::sim
