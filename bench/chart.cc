#include "bench/chart.h"

#include <fmt/format.h>

#include <vector>

#include "plot/bar_chart.h"

namespace weir::bench {
namespace {

using plot::BarStyle;

struct Entry {
  BarStyle style;
  const char* label;
  const char* benchmark;
};

struct Group {
  const char* title;
  std::vector<Entry> entries;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {"One hot key, one thread",
       {{BarStyle::kPrimary, "Weir, check", "hot_key/check"},
        {BarStyle::kOther, "map + mutex", "hot_key/map"},
        {BarStyle::kOther, "keyed rate", "hot_key/rate"}}},
      {"One hot key, two threads",
       {{BarStyle::kPrimary, "Weir, check", "hot_key/check x2"},
        {BarStyle::kOther, "map + mutex", "hot_key/map x2"},
        {BarStyle::kOther, "keyed rate", "hot_key/rate x2"}}},
      {"1 M keys, one at a time",
       {{BarStyle::kPrimary, "Weir, check", "many_keys/weir/one_at_a_time"},
        {BarStyle::kOther, "map + mutex", "many_keys/map/one_at_a_time"},
        {BarStyle::kOther, "keyed rate", "many_keys/rate/one_at_a_time"},
        {BarStyle::kBaseline, "memory access only", "many_keys/touch/one_at_a_time"}}},
      {"1 M keys, best throughput",
       {{BarStyle::kPrimary, "Weir, check_each of 16", "many_keys/weir/batches"},
        {BarStyle::kOther, "map + mutex", "many_keys/map/overlapping"},
        {BarStyle::kOther, "keyed rate", "many_keys/rate/overlapping"},
        {BarStyle::kBaseline, "memory access only", "many_keys/touch/batches"}}},
      {"1 M keys, best throughput, two threads",
       {{BarStyle::kPrimary, "Weir, check_each of 16", "many_keys/weir/batches x2"},
        {BarStyle::kOther, "map + mutex", "many_keys/map/overlapping x2"},
        {BarStyle::kOther, "keyed rate", "many_keys/rate/overlapping x2"},
        {BarStyle::kBaseline, "memory access only", "many_keys/touch/batches x2"}}},
  };
  return all;
}

std::string entry_of(const Machine& machine, const std::string& name) {
  for (const auto& [key, value] : machine) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace

std::string chart(const Results& results, const Machine& machine) {
  plot::BarChart chart{
      .title = "Decisions per second, in millions (longer is better)",
      .subtitle =
          fmt::format("{}, {} cores, {}. Linear scale; medians.", entry_of(machine, "processor"),
                      entry_of(machine, "cores"), entry_of(machine, "date")),
      .unit = "M/s",
      .groups = {},
      .footnotes = {"map + mutex: std::unordered_map of sliding windows. keyed rate: one limiter "
                    "per key, as Go's x/time/rate. Both are C++ in the same harness.",
                    "memory access only: reads and writes the cache lines of a decision in the "
                    "same order, without deciding."}};
  for (const Group& group : groups()) {
    plot::BarGroup& drawn = chart.groups.emplace_back();
    drawn.title = group.title;
    for (const Entry& entry : group.entries) {
      const auto nanos = results.median(entry.benchmark);
      if (!nanos) continue;
      drawn.bars.push_back({.label = entry.label, .value = 1000 / *nanos, .style = entry.style});
    }
  }
  return to_svg(chart);
}

}  // namespace weir::bench
