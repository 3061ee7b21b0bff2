#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <utility>

#include "bench/fleet/fleet.h"

namespace weir::bench {
namespace {

struct Policy {
  const char* name;
  SharingRules rules;
};

std::vector<Policy> policies() {
  return {{"weir", SharingRules{}}, {"floor", sim::floor_rules()}};
}

Nanos processor_time() {
  return Nanos(static_cast<int64_t>(std::clock()) * (1'000'000'000 / CLOCKS_PER_SEC));
}

void print(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void measure_traffic(FleetResults& results) {
  const std::pair<const char*, sim::Mood> moods[] = {{"normal", sim::Mood::kNormal},
                                                     {"burst", sim::Mood::kBurst}};
  for (const auto& [name, mood] : moods) {
    for (const Policy& policy : policies()) {
      sim::TrafficOptions options{.mood = mood};
      options.fleet.rules = policy.rules;
      options.fleet.processor_time = processor_time;
      if (results.quick) {
        options.warm_up = Millis(60'000);
        options.windows = 1;
      }
      const Nanos before = processor_time();
      sim::TrafficReport report = run_traffic(options);
      const double took = static_cast<double>((processor_time() - before).count()) / 1e9;
      results.traffic.push_back(
          {.mood = name, .policy = policy.name, .report = std::move(report), .took = took});
    }
  }
  print(table_of_traffic(results));
}

sim::AttackReport hide_as_best(const sim::AttackOptions& options) {
  const sim::AttackReport unseen = hide_then_run(options, sim::Hiding::kUnseen);
  const sim::AttackReport present = hide_then_run(options, sim::Hiding::kPresent);
  return unseen.worst >= present.worst ? unseen : present;
}

// Three processes a region are tried where there are ten regions.
void measure_attacks(FleetResults& results) {
  const std::vector<std::pair<uint32_t, uint32_t>> fleets =
      results.quick ? std::vector<std::pair<uint32_t, uint32_t>>{{10, 10}}
                    : std::vector<std::pair<uint32_t, uint32_t>>{
                          {2, 2}, {3, 3}, {5, 5}, {10, 10}, {10, 30}, {20, 20}, {30, 30}};
  const int windows = results.quick ? 3 : 10;
  for (const auto& [regions, processes] : fleets) {
    for (const Policy& policy : policies()) {
      sim::AttackOptions options;
      options.fleet.regions = regions;
      options.fleet.processes = processes;
      options.fleet.rules = policy.rules;
      const auto keep = [&](const char* name, const sim::AttackReport& report) {
        results.attacks.push_back({.attack = name,
                                   .policy = policy.name,
                                   .regions = regions,
                                   .processes = processes,
                                   .report = report});
      };
      keep("hide, then run", hide_as_best(options));
      keep("saturated windows", ask_evenly(options, 10, windows));
      keep("3 limits, evenly", ask_evenly(options, 3.0 / regions, windows));
    }
  }
  for (const uint32_t processes : {1U, 3U}) {
    for (const Policy& policy : policies()) {
      sim::AttackOptions options;
      options.fleet.regions = 1;
      options.fleet.processes = processes;
      options.fleet.rules = policy.rules;
      results.lone.push_back({.attack = "a lone region",
                              .policy = policy.name,
                              .regions = 1,
                              .processes = processes,
                              .report = ask_evenly(options, 3, 10)});
    }
  }
  print(table_of_attacks(results));
}

void measure_flood(FleetResults& results) {
  sim::FloodOptions options;
  if (results.quick) {
    options.fleet.capacity = size_t{1} << 18;
    options.lasts = Millis(20'000);
    options.after = Millis(20'000);
  }
  results.flood.push_back(run_flood(options));
  print(table_of_flood(results.flood.back()));
}

void measure_processor(FleetResults& results) {
  sim::TrafficOptions options{.keys = 46'000};
  options.fleet.regions = 2;
  options.fleet.processes = 2;
  options.fleet.capacity = size_t{1} << 16;
  options.fleet.processor_time = processor_time;
  options.warm_up = Millis(results.quick ? 60'000 : 300'000);
  options.windows = 1;
  results.crowded.push_back(run_traffic(options));
  print(lines_on_processor(results.crowded.back()));
}

}  // namespace

FleetResults measure_fleet(const FleetPlan& plan) {
  FleetResults results;
  results.quick = plan.quick;
  const auto wanted = [&](const char* what) { return plan.only.empty() || plan.only == what; };
  if (wanted("attacks")) measure_attacks(results);
  if (wanted("flood")) measure_flood(results);
  if (wanted("processor")) measure_processor(results);
  if (wanted("traffic")) measure_traffic(results);
  return results;
}

}  // namespace weir::bench
