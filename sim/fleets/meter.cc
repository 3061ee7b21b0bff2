#include "sim/fleets/meter.h"

#include <algorithm>
#include <functional>

#include "sim/fleets/quantile.h"
#include "sim/scenario/figures.h"

namespace weir::sim {
namespace {

constexpr Millis kSecond{1000};
constexpr size_t kMostDelays = 20'000;
constexpr size_t kMostShares = 50'000;

// At most this many values, evenly spread.
template <typename From>
std::vector<double> sampled(const std::vector<From>& all, size_t most) {
  std::vector<double> some;
  const size_t step = all.size() / most + 1;
  for (size_t i = 0; i < all.size(); i += step) some.push_back(static_cast<double>(all[i]));
  return some;
}

RegionLoad operator-(const RegionLoad& a, const RegionLoad& b) {
  return {.offered = a.offered - b.offered,
          .admitted = a.admitted - b.admitted,
          .denied = a.denied - b.denied,
          .degraded = a.degraded - b.degraded,
          .unanswered = a.unanswered - b.unanswered,
          .false_denials = a.false_denials - b.false_denials,
          .origin_commands = a.origin_commands - b.origin_commands,
          .bridge_commands = a.bridge_commands - b.bridge_commands,
          .bridge_updates = a.bridge_updates - b.bridge_updates,
          .message_bytes = a.message_bytes - b.message_bytes};
}

RegionLoad sum_of(const std::vector<RegionLoad>& loads) {
  RegionLoad sum;
  for (const RegionLoad& load : loads) {
    sum.offered += load.offered;
    sum.admitted += load.admitted;
    sum.denied += load.denied;
    sum.degraded += load.degraded;
    sum.unanswered += load.unanswered;
    sum.false_denials += load.false_denials;
    sum.origin_commands += load.origin_commands;
    sum.bridge_commands += load.bridge_commands;
    sum.bridge_updates += load.bridge_updates;
    sum.message_bytes += load.message_bytes;
  }
  return sum;
}

}  // namespace

Meter::Meter(Fleet& fleet, const std::vector<size_t>& spotlights)
    : fleet_(fleet), began_(fleet.elapsed()), before_(sums()) {
  for (const size_t key : spotlights) {
    const FleetKey& is = fleet_.admissions().key(key);
    spotlight_of_[key] = spotlights_.size();
    spotlights_.push_back({.name = is.ns + "/" + is.identifier,
                           .limit = is.limit,
                           .duration = is.duration,
                           .admitted = std::vector<std::vector<uint32_t>>(fleet_.regions()),
                           .offered = {}});
  }
}

Meter::Sums Meter::sums() const {
  Sums now{.regions = {}, .ledger = fleet_.load()};
  for (uint32_t i = 0; i < fleet_.regions(); ++i) now.regions.push_back(fleet_.region_load(i));
  return now;
}

void Meter::observe(const FleetAnswer& answer) {
  const auto found = spotlight_of_.find(answer.key);
  if (found == spotlight_of_.end()) return;
  Spotlight& spotlight = spotlights_[found->second];
  const auto second = static_cast<size_t>((fleet_.elapsed() - began_) / kSecond);
  const auto add = [second](std::vector<uint32_t>& to, Count cost) {
    to.resize(std::max(to.size(), second + 1));
    to[second] += static_cast<uint32_t>(cost);
  };
  add(spotlight.offered, answer.cost);
  if (answer.verdict.admitted()) add(spotlight.admitted[answer.region], answer.cost);
}

void Meter::tick() {
  const Millis passed = fleet_.elapsed() - began_;
  if (passed > Millis(0) && passed % kSecond == Millis(0)) sample();
}

void Meter::sample() {
  at_second_.push_back(sums());
  for (uint32_t i = 0; i < fleet_.nodes(); ++i) {
    bound_ = std::max(bound_, fleet_.sync_stats(i).widest_bound());
  }
}

void Meter::end_measuring() {
  measured_ = fleet_.elapsed() - began_;
  after_ = sums();
}

void Meter::fill(Results& results) const {
  results.measured_seconds = static_cast<double>(measured_.count()) / 1e3;
  add_figures(results);

  const auto add = [&](const std::string& key, const std::string& label,
                       const std::function<uint64_t(const Sums&)>& part) {
    Series series{.key = key, .label = label, .values = {}};
    uint64_t last = part(before_);
    for (const Sums& sums : at_second_) {
      series.values.push_back(static_cast<double>(part(sums) - last));
      last = part(sums);
    }
    results.series.push_back(std::move(series));
  };
  add("offered", "requests", [](const Sums& s) { return sum_of(s.regions).offered; });
  add("admitted", "admitted", [](const Sums& s) { return sum_of(s.regions).admitted; });
  add("denied", "denied", [](const Sums& s) { return sum_of(s.regions).denied; });
  add("degraded", "decided on less", [](const Sums& s) { return sum_of(s.regions).degraded; });
  for (uint32_t i = 0; i < fleet_.regions(); ++i) {
    const std::string& name = fleet_.region(i).name;
    add("admitted:" + name, "admitted in " + name,
        [i](const Sums& s) { return s.regions[i].admitted; });
  }
  add("rows", "ledger rows written", [](const Sums& s) { return s.ledger.rows; });
  add("rows_read", "ledger rows read", [](const Sums& s) { return s.ledger.rows_read; });
  add("origin_commands", "commands to origins",
      [](const Sums& s) { return sum_of(s.regions).origin_commands; });

  results.spotlights = spotlights_;
  for (Spotlight& spotlight : results.spotlights) {
    spotlight.offered.resize(at_second_.size());
    for (std::vector<uint32_t>& region : spotlight.admitted) region.resize(at_second_.size());
  }
  results.delays_ms = sampled(fleet_.admissions().delays().age, kMostDelays);
}

void Meter::add_figures(Results& results) const {
  const RegionLoad all = sum_of(after_.regions) - sum_of(before_.regions);
  const LedgerLoad ledger = after_.ledger - before_.ledger;
  const auto add = [&](const char* key, double value) {
    results.figures.push_back(figure_of(key, value));
  };
  const auto per_second = [&](uint64_t count) {
    return static_cast<double>(count) / results.measured_seconds;
  };
  const auto percent = [](uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  };
  const uint64_t answered = all.admitted + all.denied;
  add("offered_per_second", per_second(all.offered));
  add("denied", percent(all.denied, answered));
  add("degraded", percent(all.degraded, answered));
  // Some requests are answered after the measured time.
  const RegionLoad in_the_end = sum_of(sums().regions) - sum_of(before_.regions);
  add("unanswered", static_cast<double>(in_the_end.unanswered));

  std::vector<double> shares;
  double mean = 0, worst_cell = 0, worst_window = 0, unexcused = 0, beyond_bound = 0;
  for (const FleetCell& cell : fleet_.admissions().cells()) {
    worst_cell = std::max(worst_cell, cell.share());
    worst_window = std::max(worst_window, cell.in_limits(cell.trailing));
    unexcused = std::max(unexcused, cell.in_limits(cell.unexcused));
    beyond_bound = std::max(beyond_bound, cell.beyond_bound);
    if (cell.admitted + cell.refused < cell.limit) continue;
    shares.push_back(cell.share());
    mean += cell.share();
  }
  if (!shares.empty()) mean /= static_cast<double>(shares.size());
  results.cell_shares = sampled(shares, kMostShares);
  add("full_cells", static_cast<double>(shares.size()));
  add("mean_cell", mean);
  add("worst_cell", worst_cell);
  add("worst_window", worst_window);
  add("unexcused", unexcused);
  add("bound", bound_);
  add("beyond_bound", beyond_bound);
  add("false_denials", percent(all.false_denials, answered));
  add("origin_commands", per_second(all.origin_commands));
  add("rows", per_second(ledger.rows));
  add("batches", per_second(ledger.batches));
  add("rows_read", per_second(ledger.rows_read));
  add("bridge_commands", per_second(all.bridge_commands));
  add("bridge_updates", per_second(all.bridge_updates));
  add("message_bytes", per_second(all.message_bytes));
  const std::vector<float>& ages = fleet_.admissions().delays().age;
  const std::vector<float>& travels = fleet_.admissions().delays().travel;
  add("travel_p50", quantile(travels, 0.5));
  add("travel_p99", quantile(travels, 0.99));
  add("propagation_p50", quantile(ages, 0.5));
  add("propagation_p99", quantile(ages, 0.99));
  add("lost_with_nodes", static_cast<double>(fleet_.lost_with_nodes()));
}

}  // namespace weir::sim
