// Reads the faults of a scenario.

#include <fmt/format.h>

#include "sim/scenario/scenario_parts.h"

namespace weir::sim {
namespace {

const FaultWords& read_kind(const YamlValue& value) {
  std::vector<std::string_view> kinds;
  for (const FaultWords& words : fault_words()) kinds.push_back(words.word);
  return fault_words()[value.choice(kinds)];
}

// The amount of a fault, in ms or percent.
double read_amount(const YamlValue& value, Amount amount) {
  if (amount == Amount::kPercent) return value.percent({0.001, 100});
  const Millis least = amount == Amount::kOffset ? -kDay : Millis(1);
  return static_cast<double>(value.duration({least, kDay}).count());
}

}  // namespace

FaultPlan read_fault(const YamlValue& value, const Scenario& scenario) {
  const YamlMap map(value, {"at", "what", "lasts", "where", "amount"});
  const FaultWords& words = read_kind(map.at("what"));
  FaultPlan fault{.what = words.kind};
  fault.at = read_instant(map.at("at"), scenario);
  if (words.at_once) {
    map.refuse("lasts", fmt::format("{} happens at once", words.word));
  } else {
    fault.lasts = map.at("lasts").duration(kSpan);
    if (fault.at + fault.lasts > end_of(scenario)) {
      fail_beyond_end(map.at("lasts"), scenario);
    }
  }
  if (const auto where = map.find("where")) fault.where = read_where(*where, scenario, words.where);
  if (words.amount == Amount::kNone) {
    map.refuse("amount", fmt::format("{} has none", words.word));
  } else {
    fault.amount = read_amount(map.at("amount"), words.amount);
  }
  return fault;
}

FaultRate read_random_fault(const YamlValue& value) {
  const YamlMap map(value, {"what", "every", "lasts", "amount"});
  const FaultWords& words = read_kind(map.at("what"));
  FaultRate rate{.what = words.kind};
  rate.every = map.at("every").duration(kSpan);
  if (words.at_once) {
    map.refuse("lasts", fmt::format("{} happens at once", words.word));
    rate.lasts = {Millis(0), Millis(0)};
  } else {
    rate.lasts = map.at("lasts").range([](const YamlValue& one) { return one.duration(kSpan); });
  }
  if (words.amount == Amount::kNone) {
    map.refuse("amount", fmt::format("{} has none", words.word));
  } else {
    rate.amount = map.at("amount").range(
        [&](const YamlValue& one) { return read_amount(one, words.amount); });
  }
  return rate;
}

}  // namespace weir::sim
