#include "sim/report/json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace weir::sim {
namespace {

// How many bytes at the beginning are one code point; 0: they are not UTF-8.
size_t code_point(std::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  size_t length = 0;
  if (first >= 0xC2 && first <= 0xDF) length = 2;
  if (first >= 0xE0 && first <= 0xEF) length = 3;
  if (first >= 0xF0 && first <= 0xF4) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool too_long = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool too_large = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return too_long || too_large ? 0 : length;
}

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

const char* yes_or_no(bool value) {
  return value ? "true" : "false";
}

std::string json(const Figure& figure) {
  return fmt::format(R"({{"key":{},"label":{},"unit":{},"value":{},"less_is_better":{}}})",
                     json_string(figure.key), json_string(figure.label), json_string(figure.unit),
                     json_number(figure.value), yes_or_no(figure.less_is_better));
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

std::string json(const ExpectationResult& promise) {
  return fmt::format(R"({{"promise":{},"was":{},"kept":{}}})", json_string(promise.expectation),
                     json_number(promise.actual), yes_or_no(promise.met));
}

template <typename Item>
std::string objects(const std::vector<Item>& items) {
  return array(items, [](const Item& item) { return json(item); });
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = code_point(text);
    if (length == 0) {
      out += "\\ufffd";
    } else if (length > 1) {
      out += text.substr(0, length);
    } else if (const char c = text[0]; c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < ' ' || c == '<' || c == '\x7f') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

// Seeds and fingerprints as text: most readers of JSON keep 53 bits of a number.
std::string to_json(const Results& results) {
  std::string text = fmt::format(
      R"({{"scenario":{},"about":{},"variant":{},"seed":"{}","fingerprint":"{:016x}","fine":{},)"
      R"("events":{},"simulated_seconds":{},"measured_seconds":{},"took_seconds":{},"sharing_seconds":{},)"
      R"("regions":{},"nodes":{},"keys":{})",
      json_string(results.scenario), json_string(results.about), json_string(results.variant),
      results.seed, results.fingerprint, yes_or_no(results.fine()), results.events,
      json_number(results.simulated_seconds), json_number(results.measured_seconds),
      json_number(results.took_seconds), json_number(results.sync_seconds),
      strings(results.regions), results.nodes, results.keys);
  text += ",\n\"figures\":" + objects(results.figures);
  text += ",\n\"promises\":" + objects(results.expectations);
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
