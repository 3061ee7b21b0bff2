#include "sim/fleets/run.h"

#include <algorithm>
#include <cmath>

#include "sim/fleets/fault_injector.h"
#include "sim/fleets/fleet.h"
#include "sim/fleets/meter.h"
#include "sim/fleets/post_mortem.h"
#include "sim/fleets/traffic.h"
#include "sim/scenario/figures.h"

namespace weir::sim {
namespace {

// Regions know each other before the first request; a whole number of common windows.
constexpr Millis kSettle{60'000};
constexpr Millis kProgressEvery{1000};

// Calls `visit(kind, largest amount)` for each fault of the scenario.
template <typename Visit>
void for_each_fault(const Scenario& scenario, const Visit& visit) {
  for (const FaultPlan& fault : scenario.faults) visit(fault.what, std::abs(fault.amount));
  for (const FaultRate& rate : scenario.random_faults) {
    visit(rate.what, std::max(std::abs(rate.amount.from), std::abs(rate.amount.to)));
  }
}

// The most that a clock can be off, without faults.
Millis max_offset(const ClockShape& shape, Millis run_time) {
  const auto gained = [&](Millis span) {
    return Millis(std::abs(shape.parts_per_million) * span.count() / 1'000'000 + 1);
  };
  switch (shape.kind) {
    case ClockShape::Kind::kSteady:
    case ClockShape::Kind::kStepping: return std::chrono::abs(shape.by);
    case ClockShape::Kind::kDrifting: return gained(run_time);
    case ClockShape::Kind::kSawtooth: return gained(shape.every);
  }
  return Millis(0);
}

FleetChecks checks_of(const Scenario& scenario, const CheckOptions& options) {
  FleetChecks checks{.only_checker = options.only_checker,
                     .planted_bug = options.planted_bug,
                     .fault_free = scenario.faults.empty() && scenario.random_faults.empty() &&
                                   scenario.clocks.empty()};
  Millis offset{0};
  const Millis run_time = kSettle + scenario.warm_up + scenario.measured + scenario.calm;
  for (const ClockShape& shape : scenario.clocks) offset += max_offset(shape, 2 * run_time);
  Millis set{0};
  for_each_fault(scenario, [&](FaultKind kind, double amount) {
    const Millis ms(std::llround(amount));
    if (kind == FaultKind::kClockSet && ms < kWrongClock) set = std::max(set, ms);
    if (kind == FaultKind::kNetworkReorders) checks.extra_origin_delay += ms;
  });
  checks.max_clock_skew = 2 * (offset + set);
  uint64_t keys = 0;
  for (const StreamPlan& stream : scenario.traffic) {
    keys += stream.shape == Shape::kFresh ? scenario.settings.capacity : stream.keys;
  }
  checks.evicts = keys > scenario.settings.capacity / 2;
  return checks;
}

FleetOptions options_of(const Scenario& scenario, const RunOptions& options) {
  FleetOptions fleet{.seed = scenario.seed,
                     .regions = scenario.regions,
                     .settings = scenario.settings,
                     .clocks = scenario.clocks,
                     .stopwatch = options.stopwatch};
  if (options.checks) fleet.checks = checks_of(scenario, *options.checks);
  return fleet;
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

Results run_scenario(const Scenario& scenario, const RunOptions& options) {
  Fleet fleet(options_of(scenario, options));
  fleet.run_for(kSettle);
  Traffic traffic(scenario, fleet);
  FaultInjector injector(scenario, fleet);
  const Millis all = scenario.warm_up + scenario.measured + scenario.calm;
  const auto report_progress = [&] {
    const Millis passed = fleet.elapsed() - kSettle;
    if (options.progress && passed % kProgressEvery == Millis(0)) options.progress(passed, all);
  };
  fleet.run_for(scenario.warm_up, [&] {
    report_progress();
    traffic.send_due();
  });

  fleet.begin_measuring();
  Meter meter(fleet, traffic.spotlights());
  PostMortem post_mortem(fleet);
  fleet.on_answer([&](const FleetAnswer& answer) {
    meter.observe(answer);
    post_mortem.observe(answer);
  });
  fleet.run_for(scenario.measured, [&] {
    report_progress();
    meter.tick();
    traffic.send_due();
  });

  meter.end_measuring();
  const Nanos sync = fleet.sync_time();
  injector.stop_faults();
  fleet.run_for(scenario.calm, [&] {
    report_progress();
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
                  .keys = traffic.keys()};
  for (const RegionPlan& region : scenario.regions) results.regions.push_back(region.name);
  meter.fill(results);
  results.figures.push_back(figure_of("disagreements", static_cast<double>(disagreements)));
  results.faults = spans_of(injector.all(), scenario.warm_up);
  if (scenario.clocks.empty()) post_mortem.check_bound(injector, meter.bound());
  for (const Expectation& each : scenario.expect) {
    results.expectations.push_back(evaluate(each, results));
  }
  fleet.check_convergence();
  post_mortem.add_violation();
  results.broken = post_mortem.broken();
  results.last_events = post_mortem.last_events();
  return results;
}

}  // namespace weir::sim
