#include "bench/results.h"

#include <fmt/format.h>

#include <algorithm>

#include "plot/text.h"

namespace weir::bench {
namespace {

using plot::json_string;

double median_of(Series series) {
  std::sort(series.begin(), series.end());
  const size_t middle = series.size() / 2;
  return series.size() % 2 == 1 ? series[middle] : (series[middle - 1] + series[middle]) / 2;
}

std::string memory_json(const MemoryUse& use) {
  return fmt::format(
      R"({{"tuples": {}, "sketched": {}, "resident_bytes": {}, "reserved_bytes": {}}})", use.tuples,
      use.sketched, use.resident_bytes, use.reserved_bytes);
}

}  // namespace

void Results::ReportRuns(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    if (run.run_type != Run::RT_Iteration) continue;
    const std::string threads = run.threads > 1 ? fmt::format(" x{}", run.threads) : "";
    const std::string name = run.run_name.function_name + threads;
    if (run.error_occurred) {
      errors_.push_back(name + ": " + run.error_message);
      continue;
    }
    series_[name].push_back(run.real_accumulated_time / static_cast<double>(run.iterations) * 1e9);
  }
}

void Results::set_memory(const std::optional<MemoryUses>& measured) {
  memory_ = measured;
  if (!measured) errors_.push_back("memory: the measurement failed");
}

std::optional<double> Results::median(const std::string& name) const {
  const auto found = series_.find(name);
  if (found == series_.end()) return std::nullopt;
  return median_of(found->second);
}

std::optional<Ratio> Results::ratio(const std::string& over, const std::string& under) const {
  const auto a = series_.find(over);
  const auto b = series_.find(under);
  if (a == series_.end() || b == series_.end()) return std::nullopt;
  Series ratios;
  for (size_t i = 0; i < std::min(a->second.size(), b->second.size()); ++i) {
    ratios.push_back(a->second[i] / b->second[i]);
  }
  const auto [min, max] = std::minmax_element(ratios.begin(), ratios.end());
  return Ratio{.of_medians = median_of(a->second) / median_of(b->second), .min = *min, .max = *max};
}

std::string to_json(const Results& results, const Machine& machine, const Arguments& arguments) {
  std::string out = "{\n  \"machine\": {\n";
  for (size_t i = 0; i < machine.size(); ++i) {
    out += fmt::format("    {}: {}{}\n", json_string(machine[i].first),
                       json_string(machine[i].second), i + 1 < machine.size() ? "," : "");
  }
  out += fmt::format("  }},\n  \"repetitions\": {},\n  \"seconds_per_repetition\": {},\n",
                     arguments.repetitions, arguments.seconds);
  if (results.memory()) {
    out += fmt::format(
        "  \"memory\": {{\n    \"weir\": {},\n    \"map\": {},\n    \"rate\": {}\n  }},\n",
        memory_json(results.memory()->weir), memory_json(results.memory()->map),
        memory_json(results.memory()->rate));
  }
  out += "  \"nanoseconds_per_decision\": {\n";
  size_t left = results.all().size();
  for (const auto& [name, series] : results.all()) {
    out += fmt::format("    {}: [{:.3f}]{}\n", json_string(name), fmt::join(series, ", "),
                       --left > 0 ? "," : "");
  }
  return out + "  }\n}\n";
}

}  // namespace weir::bench
