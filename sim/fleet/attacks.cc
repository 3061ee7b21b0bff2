#include "sim/fleet/attacks.h"

#include <algorithm>
#include <cmath>

#include "base/wide.h"
#include "limiter/publish_rule.h"

namespace weir::sim {
namespace {

constexpr Millis kWindow{60'000};

std::vector<uint32_t> all_regions(const FleetOptions& options) {
  std::vector<uint32_t> all(options.regions);
  for (uint32_t i = 0; i < options.regions; ++i) all[i] = i;
  // A watched key is one of several regions.
  if (all.size() == 1) all.push_back(0);
  return all;
}

size_t add_target(Fleet& fleet, const AttackOptions& options) {
  return fleet.add({.name_space = "api",
                    .identifier = "target",
                    .limit = options.limit,
                    .regions = all_regions(options.fleet)});
}

// `count` requests, spread over the time.
void ask_for(Fleet& fleet, size_t key, uint32_t region, Count count, Millis span) {
  Count asked = 0;
  Millis passed{0};
  fleet.run_for(span, [&] {
    ++passed;
    const Count due = base::mul_div(count, static_cast<uint64_t>(passed.count()),
                                    static_cast<uint64_t>(span.count()));
    for (; asked < due; ++asked) fleet.ask(key, region);
  });
}

void take_in(const FleetCell& cell, AttackReport& report) {
  const auto limit = static_cast<double>(cell.limit);
  report.unexcused = std::max(report.unexcused, static_cast<double>(cell.unexcused) / limit);
  if (cell.share() <= report.worst) return;
  report.worst = cell.share();
  report.recent = static_cast<double>(cell.recent) / limit;
}

// What a region may count and not say, while all are known to be here with `told` each: what its
// own admissions leave is divided among all.
Count held_back(const AttackOptions& options, Count told) {
  const uint64_t regions = options.fleet.regions;
  const Count slack = limiter::part_of(options.limit, options.fleet.rules.slack_permille);
  const Count left = base::saturating_sub(options.limit + slack, regions * told);
  return base::saturating_sub(base::ceil_div(left, regions + 1), 1);
}

}  // namespace

AttackReport hide_then_run(const AttackOptions& options, Hiding hiding) {
  const SharingRules& rules = options.fleet.rules;
  const uint32_t last = options.fleet.regions - 1;
  Fleet fleet(options.fleet);
  const size_t target = add_target(fleet, options);
  fleet.run_for(kWindow);
  fleet.begin_measuring();

  const bool floor = rules.policy == PublishPolicy::kFloor;
  const Count presence = limiter::hidden_of(options.limit, rules, options.fleet.regions);
  const Count hides =
      (floor ? limiter::part_of(options.limit, rules.floor_permille) : presence) - 1;
  if (floor || hiding == Hiding::kUnseen) {
    for (uint32_t region = 0; region < last; ++region) {
      ask_for(fleet, target, region, hides, Millis(200));
    }
  } else {
    for (uint32_t region = 0; region <= last; ++region) {
      ask_for(fleet, target, region, presence, Millis(100));
    }
    fleet.run_for(Millis(5000));
    for (uint32_t region = 0; region < last; ++region) {
      ask_for(fleet, target, region, held_back(options, presence), Millis(100));
    }
  }
  fleet.run_for(Millis(35'000) - fleet.elapsed() % kWindow);
  ask_for(fleet, target, last, 2 * options.limit, Millis(20'000));

  AttackReport report;
  for (const FleetCell& cell : fleet.cells()) take_in(cell, report);
  report.mean = report.worst;
  report.rows_per_window = static_cast<double>(fleet.load().rows);
  return report;
}

AttackReport ask_evenly(const AttackOptions& options, double times, int windows) {
  Fleet fleet(options.fleet);
  const size_t target = add_target(fleet, options);
  const uint32_t regions = options.fleet.regions;
  // In turn, at a steady pace.
  const double per_ms =
      times * static_cast<double>(options.limit) * regions / static_cast<double>(kWindow.count());
  uint64_t asked = 0;
  const Millis begins = kWindow;
  const auto each = [&] {
    const auto due = static_cast<uint64_t>(
        std::floor(per_ms * static_cast<double>((fleet.elapsed() - begins).count())));
    for (; asked < due; ++asked) fleet.ask(target, static_cast<uint32_t>(asked % regions));
  };
  fleet.run_for(begins);
  fleet.run_for(2 * kWindow, each);
  fleet.begin_measuring();
  const LedgerLoad before = fleet.load();
  fleet.run_for(windows * kWindow, each);

  AttackReport report;
  for (const FleetCell& cell : fleet.cells()) {
    report.mean += cell.share() / windows;
    take_in(cell, report);
  }
  report.rows_per_window = static_cast<double>((fleet.load() - before).rows) / windows;
  return report;
}

FloodReport run_flood(const FloodOptions& options) {
  constexpr size_t kKeys = 50;
  constexpr Count kLimit = 100;
  constexpr double kPerMs = 1.5 * kLimit * kKeys / 60'000.0;
  Fleet fleet(options.fleet);
  Random random(options.fleet.seed + 3);
  for (size_t i = 0; i < kKeys; ++i) {
    fleet.add({.name_space = "api",
               .identifier = std::string("user-").append(std::to_string(i)),
               .limit = kLimit,
               .regions = all_regions(options.fleet)});
  }
  const Millis settle = kWindow;
  const Millis begins = settle + options.before;
  const Millis ends = begins + options.lasts;
  double owed = 0;
  uint64_t fresh = 0;
  const auto each = [&] {
    for (owed += kPerMs; owed >= 1; owed -= 1) {
      const auto region = static_cast<uint32_t>(random.next() % options.fleet.regions);
      fleet.ask(random.next() % kKeys, region);
    }
    if (fleet.elapsed() < begins || fleet.elapsed() >= ends) return;
    const auto passed = static_cast<uint64_t>((fleet.elapsed() - begins).count()) + 1;
    for (; fresh < passed * options.fresh_per_second / 1000; ++fresh) {
      fleet.ask_once({.name_space = "address",
                      .identifier = std::string("a").append(std::to_string(fresh)),
                      .limit = 10},
                     0);
    }
  };
  FloodReport report;
  const auto watch = [&](Millis span) {
    for (Millis passed{0}; passed < span; passed += Millis(1000)) {
      const uint64_t rows = fleet.load_of(0).rows;
      const uint64_t had = fresh;
      fleet.run_for(Millis(1000), each);
      FloodSecond second{.fresh = fresh - had, .rows = fleet.load_of(0).rows - rows};
      for (uint32_t i = 0; i < fleet.processes(); ++i) {
        const SharingStats stats = fleet.sharing_stats(i);
        if (fleet.region_of(i) == 0) {
          second.waiting += stats.waiting;
          second.left_out += stats.left_out;
        } else {
          second.bound = std::max(second.bound, stats.bound);
        }
      }
      report.seconds.push_back(second);
    }
  };
  fleet.run_for(settle, each);
  fleet.begin_measuring();
  watch(options.before);
  report.calm = fleet.delays();
  fleet.begin_measuring();
  watch(options.lasts);
  report.flood = fleet.delays();
  watch(options.after);
  for (const FleetCell& cell : fleet.cells()) {
    const auto limit = static_cast<double>(cell.limit);
    report.worst = std::max(report.worst, cell.share());
    report.unexcused = std::max(report.unexcused, static_cast<double>(cell.unexcused) / limit);
  }
  return report;
}

}  // namespace weir::sim
