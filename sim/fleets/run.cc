#include "sim/fleets/run.h"

#include <algorithm>
#include <cmath>

#include "sim/fleets/traffic.h"
#include "sim/scenario/figures.h"
#include "sim/fleets/fleet.h"
#include "sim/fleets/post_mortem.h"
#include "sim/fleets/meter.h"
#include "sim/fleets/fault_injector.h"

namespace weir::sim {
namespace {

// The regions have heard of each other before anyone asks; a whole number of usual windows.
constexpr Millis kSettle{60'000};
constexpr Millis kProgressEvery{1000};

FleetOptions options_of(const Scenario& scenario, const RunOptions& with) {
  return {.seed = scenario.seed,
          .regions = scenario.regions,
          .settings = scenario.settings,
          .clocks = scenario.clocks,
          .stopwatch = with.stopwatch};
}

bool is_met(const Expectation& expectation, double value) {
  switch (expectation.relation) {
    case Expectation::Relation::kAtMost: return value <= expectation.value;
    case Expectation::Relation::kAtLeast: return value >= expectation.value;
    case Expectation::Relation::kEquals: return value == expectation.value;
  }
  return false;
}

std::string format_number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

ExpectationResult evaluate(const Expectation& expectation, const Results& results) {
  static constexpr const char* kSigns[] = {" <= ", " >= ", " == "};
  const double was = results.figure(expectation.figure).value_or(std::nan(""));
  return {.expectation = expectation.figure + kSigns[static_cast<size_t>(expectation.relation)] +
                     format_number(expectation.value),
          .actual = was,
          .met = is_met(expectation, was)};
}

std::vector<FaultSpan> spans_of(const std::vector<FaultPlan>& faults, Millis warm_up) {
  std::vector<FaultSpan> spans;
  for (const FaultPlan& fault : faults) {
    const auto seconds = [&](Millis at) {
      return static_cast<double>((at - warm_up).count()) / 1e3;
    };
    std::string label(to_string(fault.what));
    std::replace(label.begin(), label.end(), '_', ' ');
    if (!fault.where.empty()) label += ", " + fault.where;
    spans.push_back({.label = std::move(label),
                     .from = seconds(fault.at),
                     .to = seconds(fault.at + fault.lasts)});
  }
  return spans;
}

}  // namespace

Results run_scenario(const Scenario& scenario, const RunOptions& with) {
  Fleet fleet(options_of(scenario, with));
  fleet.run_for(kSettle);
  Traffic crowd(scenario, fleet);
  FaultInjector injector(scenario, fleet);
  const Millis all = scenario.warm_up + scenario.measured + scenario.calm;
  const auto flush = [&] {
    const Millis passed = fleet.elapsed() - kSettle;
    if (with.progress && passed % kProgressEvery == Millis(0)) with.progress(passed, all);
  };
  fleet.run_for(scenario.warm_up, [&] {
    flush();
    crowd.send_due();
  });

  fleet.begin_measuring();
  Meter meter(fleet, crowd.spotlights());
  PostMortem post_mortem(fleet);
  fleet.on_answer([&](const FleetAnswer& answer) {
    meter.observe(answer);
    post_mortem.observe(answer);
  });
  fleet.run_for(scenario.measured, [&] {
    flush();
    meter.tick();
    crowd.send_due();
  });

  meter.end_measuring();
  const Nanos sync = fleet.sync_time();
  injector.stop_faults();
  fleet.run_for(scenario.calm, [&] {
    flush();
    meter.tick();
  });
  const uint64_t disagreements = post_mortem.count_disagreements();

  Results results{.scenario = scenario.name,
                  .about = scenario.about,
                  .seed = scenario.seed,
                  .fingerprint = fleet.fingerprint(),
                  .events = fleet.events(),
                  .simulated_seconds = static_cast<double>((kSettle + all).count()) / 1e3,
                  .sync_seconds = std::chrono::duration<double>(sync).count(),
                  .nodes = fleet.nodes(),
                  .keys = crowd.keys()};
  for (const RegionPlan& region : scenario.regions) results.regions.push_back(region.name);
  meter.fill(results);
  results.figures.push_back(figure_of("disagreements", static_cast<double>(disagreements)));
  results.faults = spans_of(injector.all(), scenario.warm_up);
  if (scenario.clocks.empty()) post_mortem.check_bound(injector, meter.bound());
  results.broken = post_mortem.broken();
  results.last_events = post_mortem.last_events();
  for (const Expectation& each : scenario.expect) results.expectations.push_back(evaluate(each, results));
  return results;
}

}  // namespace weir::sim
