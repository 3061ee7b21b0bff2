#include "sim/worlds/shrink.h"

#include <algorithm>
#include <vector>

namespace weir::sim {

std::string_view checker_of(const RunReport& broken) {
  return std::string_view(*broken.broken).substr(0, broken.broken->find(':'));
}

namespace {

constexpr uint64_t kOtherSeeds = 4;  // tried if the first seed does not break
constexpr Millis kShortest{500};

// Worlds with one thing less each, the largest steps first. Time comes last, because a smaller
// world may need longer to break.
std::vector<WorldOptions> smaller_than(const Shrunk& now) {
  std::vector<WorldOptions> all;
  const auto add = [&](const auto& change) {
    WorldOptions options = now.options;
    change(options);
    all.push_back(options);
  };
  const WorldOptions& options = now.options;
  for (int regions = 1; regions < now.report.regions; ++regions) {
    add([&](WorldOptions& each) { each.regions = regions; });
  }
  for (int nodes = 1; nodes < now.report.nodes; ++nodes) {
    add([&](WorldOptions& each) { each.nodes = nodes; });
  }
  for (int tuples = 1; tuples < options.tuples; ++tuples) {
    add([&](WorldOptions& each) { each.tuples = tuples; });
  }
  if (options.faults == FaultMode::kRandom) {
    // Without any fault.
    add([](WorldOptions& each) {
      each.faults = FaultMode::kNone;
      each.disabled_faults.clear();
    });
    for (size_t i = 0; i < kWorldFaultNames.size(); ++i) {
      const auto kind = static_cast<WorldFault>(i);
      if (options.disabled_faults.count(kind) > 0) continue;
      add([&](WorldOptions& each) { each.disabled_faults.insert(kind); });
    }
  }
  if (options.table == TableSize::kSmall)
    add([](WorldOptions& each) { each.table = TableSize::kLarge; });
  if (options.without_origin > 0) add([](WorldOptions& each) { each.without_origin = 0; });
  if (options.remote_tuples > 0) add([](WorldOptions& each) { each.remote_tuples = 0; });
  if (options.clock != ClockFault::kNone) {
    add([](WorldOptions& each) { each.clock = ClockFault::kNone; });
  }
  for (const auto field :
       {&WorldOptions::small_row_budget, &WorldOptions::tenants, &WorldOptions::kills_after_ack,
        &WorldOptions::kills_bridges, &WorldOptions::feed_gaps, &WorldOptions::bursts,
        &WorldOptions::all_algorithms, &WorldOptions::changes_settings, &WorldOptions::steps_back,
        &WorldOptions::ledger_trouble, &WorldOptions::fails_over_often,
        &WorldOptions::pauses_bridges, &WorldOptions::limits_differ, &WorldOptions::relaxed}) {
    if (options.*field) add([field](WorldOptions& each) { each.*field = false; });
  }
  if (options.visitors > 0) add([](WorldOptions& each) { each.visitors = 0; });
  if (options.visitors > 1) add([](WorldOptions& each) { each.visitors /= 2; });
  if (options.max_region_skew > Millis(0)) {
    add([](WorldOptions& each) { each.max_region_skew = Millis(0); });
  }
  // Up to the violation the run is the same.
  if (now.report.broken_after < options.fault_time) {
    add([&](WorldOptions& each) { each.fault_time = now.report.broken_after + Millis(1); });
  }
  if (options.fault_time / 2 >= kShortest) add([](WorldOptions& each) { each.fault_time /= 2; });
  return all;
}

}  // namespace

Shrunk shrink(const WorldOptions& options, const RunReport& broken, int most_runs,
              const std::function<bool()>& stops) {
  Shrunk now{.options = options, .report = broken};
  const std::string checker(checker_of(broken));
  const auto breaks = [&](WorldOptions smaller) {
    const uint64_t first = smaller.seed;
    for (uint64_t i = 0; i <= kOtherSeeds && now.runs < most_runs && !stops(); ++i) {
      smaller.seed = i == 0 ? first : i;
      ++now.runs;
      const RunReport report = World(smaller).run();
      if (!report.broken || checker_of(report) != checker) continue;
      now.options = smaller;
      now.report = report;
      return true;
    }
    return false;
  };
  // Continues after each success, and starts once more from the first step.
  for (bool smaller = true; smaller && now.runs < most_runs && !stops();) {
    smaller = false;
    for (size_t i = 0; i < smaller_than(now).size() && now.runs < most_runs && !stops();) {
      const bool success = breaks(smaller_than(now)[i]);
      smaller = smaller || success;
      if (!success) ++i;
    }
  }
  return now;
}

}  // namespace weir::sim
