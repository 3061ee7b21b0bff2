// A scenario file yields either a scenario that can be run or an error of one line.

#include "fuzz/input.h"
#include "ledgers/rows.h"
#include "sim/scenario/figures.h"
#include "sim/scenario/scenario_file.h"

using weir::Millis;
using weir::fuzz::must;
using weir::sim::Scenario;

namespace {

void check(const Scenario& scenario) {
  const Millis end = scenario.warm_up + scenario.measured;
  must(scenario.measured > Millis(0) && scenario.calm >= Millis(0), "the run has a duration");
  must(!scenario.regions.empty() && !scenario.limits.empty() && !scenario.traffic.empty(),
       "regions, limits and traffic are not empty");
  must(weir::ledgers::is_valid(scenario.settings.sync), "the sync rules are plausible");
  for (const auto& region : scenario.regions) {
    must(!region.name.empty() && region.nodes > 0, "regions have names and nodes");
    must(region.to_origin.from <= region.to_origin.to && region.to_origin.from >= Millis(0) &&
             region.to_ledger.from <= region.to_ledger.to && region.to_ledger.from >= Millis(0),
         "delays can be drawn");
  }
  for (const auto& limit : scenario.limits) {
    must(limit.limit.from >= 1 && limit.limit.from <= limit.limit.to &&
             limit.limit.to <= weir::kMaxLimit,
         "limits can be drawn");
  }
  for (const auto& stream : scenario.traffic) {
    must(stream.demand.from > 0 && stream.demand.from <= stream.demand.to && stream.keys > 0 &&
             stream.clients > 0 && stream.every > Millis(0) && stream.on > Millis(0),
         "traffic is not empty");
    must(!stream.spread ||
             (stream.spread->from >= 1 && stream.spread->to <= scenario.regions.size()),
         "keys are used in some regions");
    must(stream.begins < stream.ends.value_or(end) && stream.ends.value_or(end) <= end,
         "traffic ends");
  }
  for (const auto& fault : scenario.faults) {
    must(fault.at < end && fault.at + fault.lasts <= end, "faults end");
  }
  for (const auto& expectation : scenario.expect) {
    must(weir::sim::find_figure(expectation.figure) != nullptr, "expectations refer to figures");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto result = weir::sim::read_scenario(text, "x.yaml");
  if (result.ok()) {
    check(*result);
  } else {
    must(result.error().detail.starts_with("x.yaml:"), "an error names the file");
    must(result.error().detail.find('\n') == std::string::npos, "an error is one line");
  }
  // The same text as a change: its first line is a path, the rest a value.
  const size_t line = std::min(text.find('\n'), text.size());
  const auto changed = weir::sim::read_scenario(
      "about: x\nworld: {regions: 2}\nlimits: [{name: a, limit: 1, duration: 1s}]\n"
      "traffic: [{limit: a, shape: steady, demand: 1}]\n",
      "x.yaml", {{.path = text.substr(0, line), .value = text.substr(line)}});
  if (changed.ok()) check(*changed);
  return 0;
}
