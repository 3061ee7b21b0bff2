#include "sim/report/json.h"

#include <fmt/format.h>

#include <cstdint>

#include "plot/text.h"

namespace weir::sim {
namespace {

using plot::json_number;
using plot::json_string;

template <typename Items, typename Write>
std::string array(const Items& items, const Write& write) {
  std::string text = "[";
  for (const auto& item : items) {
    if (text.size() > 1) text += ',';
    text += write(item);
  }
  return text + "]";
}

std::string numbers(const std::vector<double>& values) {
  return array(values, json_number);
}

std::string counts(const std::vector<uint32_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

std::string strings(const std::vector<std::string>& values) {
  return array(values, json_string);
}

const char* json_bool(bool value) {
  return value ? "true" : "false";
}

std::string json(const Figure& figure) {
  return fmt::format(R"({{"key":{},"label":{},"unit":{},"value":{},"less_is_better":{}}})",
                     json_string(figure.key), json_string(figure.label), json_string(figure.unit),
                     json_number(figure.value), json_bool(figure.less_is_better));
}

std::string json(const Series& series) {
  return fmt::format(R"({{"key":{},"label":{},"values":{}}})", json_string(series.key),
                     json_string(series.label), numbers(series.values));
}

std::string json(const Spotlight& spotlight) {
  return fmt::format(R"({{"name":{},"limit":{},"duration_ms":{},"offered":{},"admitted":{}}})",
                     json_string(spotlight.name), spotlight.limit, spotlight.duration.count(),
                     counts(spotlight.offered), array(spotlight.admitted, counts));
}

std::string json(const FaultSpan& fault) {
  return fmt::format(R"({{"label":{},"from":{},"to":{}}})", json_string(fault.label),
                     json_number(fault.from), json_number(fault.to));
}

std::string json(const ExpectationResult& result) {
  return fmt::format(R"({{"expectation":{},"actual":{},"met":{}}})",
                     json_string(result.expectation), json_number(result.actual),
                     json_bool(result.met));
}

template <typename Item>
std::string objects(const std::vector<Item>& items) {
  return array(items, [](const Item& item) { return json(item); });
}

}  // namespace

// Seeds and fingerprints are strings: most JSON parsers keep 53 bits of a number.
std::string to_json(const Results& results) {
  std::string text = fmt::format(
      R"({{"scenario":{},"about":{},"variant":{},"seed":"{}","fingerprint":"{:016x}","passed":{},)"
      R"("events":{},"simulated_seconds":{},"measured_seconds":{},"took_seconds":{},"sync_seconds":{},)"
      R"("regions":{},"nodes":{},"keys":{})",
      json_string(results.scenario), json_string(results.about), json_string(results.variant),
      results.seed, results.fingerprint, json_bool(results.fine()), results.events,
      json_number(results.simulated_seconds), json_number(results.measured_seconds),
      json_number(results.took_seconds), json_number(results.sync_seconds),
      strings(results.regions), results.nodes, results.keys);
  text += ",\n\"figures\":" + objects(results.figures);
  text += ",\n\"expectations\":" + objects(results.expectations);
  text += ",\n\"broken\":" + (results.broken ? json_string(*results.broken) : "null");
  text += ",\n\"last_events\":" + strings(results.last_events);
  text += ",\n\"faults\":" + objects(results.faults);
  text += ",\n\"series\":" + objects(results.series);
  text += ",\n\"spotlights\":" + objects(results.spotlights);
  text += ",\n\"cell_shares\":" + numbers(results.cell_shares);
  text += ",\n\"delays_ms\":" + numbers(results.delays_ms);
  return text + "}";
}

std::string to_json(const std::vector<Results>& runs) {
  return fmt::format("{{\"runs\":{}}}\n", array(runs, [](const Results& run) {
                       return fmt::format("\n{}", to_json(run));
                     }));
}

}  // namespace weir::sim
