#include "lab/report.h"

#include <fmt/format.h>

#include "lab/series.h"
#include "lab/state_bytes.h"
#include "lab/text_table.h"
#include "plot/line_image.h"

namespace weir::lab {
namespace {

std::string name_of(Algorithm algorithm) {
  return std::string(to_string(algorithm));
}

std::string describe(const Limit& limit) {
  return fmt::format("limit {} per {} ms, burst {}", grouped(limit.limit),
                     grouped(static_cast<uint64_t>(limit.duration.count())), grouped(limit.burst));
}

TextTable decisions_table(const Comparison& comparison) {
  TextTable table{
      {"algorithm", "admitted", "denied", "worst", "ratio", "allowed", "refused", "error %"}};
  for (const AlgorithmResult& result : comparison.results) {
    table.rows.push_back(
        {name_of(result.algorithm), grouped(result.admitted), grouped(result.denied),
         grouped(result.worst_window), fmt::format("{:.2f}", comparison.worst_ratio(result)),
         grouped(result.differences.wrongly_allowed), grouped(result.differences.wrongly_refused),
         fmt::format("{:.3f}", comparison.error_percent(result))});
  }
  return table;
}

TextTable costs_table(const Comparison& comparison, const std::vector<DecisionCost>& costs) {
  TextTable table{{"algorithm", "bytes per key", "at least", "ns per decision"}};
  for (size_t i = 0; i < comparison.results.size(); ++i) {
    const AlgorithmResult& result = comparison.results[i];
    table.rows.push_back({name_of(result.algorithm),
                          grouped(weir_bytes(result.algorithm, comparison.limit.limit)),
                          grouped(minimal_bytes(result.algorithm, result.worst_window)),
                          i < costs.size() ? costs[i].nanos : "-"});
  }
  return table;
}

std::vector<double> middles(const Excerpt& excerpt) {
  std::vector<double> x;
  for (size_t i = 0; i < excerpt.steps; ++i) {
    x.push_back((static_cast<double>(i) + 0.5) / kStepsPerWindow);
  }
  return x;
}

// gcra and token_bucket decide the same, so one curve shows both.
struct Line {
  Algorithm algorithm;
  const char* label;
  const char* colour;
};
constexpr Line kLines[] = {
    {Algorithm::kFixedWindow, "fixed_window", "#e34948"},
    {Algorithm::kSlidingWindow, "sliding_window", "#1668b8"},
    {Algorithm::kSlidingWindowStrict, "sliding_window_strict", "#1baf7a"},
    {Algorithm::kSlidingLog, "sliding_log", "#8a5cd0"},
    {Algorithm::kGcra, "gcra, token_bucket", "#eda100"},
};

}  // namespace

std::string text_report(const Subject& subject, const Traffic& traffic,
                        const Comparison& comparison, const std::vector<DecisionCost>& costs) {
  std::string text = subject.title;
  if (!subject.meaning.empty()) text += ": " + subject.meaning;
  const Millis span = traffic.arrivals.back().at - traffic.arrivals.front().at;
  text += fmt::format("\n{}; {} request{} of {} key{} in {:.1f} s\n\n", describe(comparison.limit),
                      grouped(traffic.arrivals.size()), traffic.arrivals.size() == 1 ? "" : "s",
                      grouped(traffic.keys.size()), traffic.keys.size() == 1 ? "" : "s",
                      static_cast<double>(span.count()) / 1000);
  text += to_text(decisions_table(comparison));
  text +=
      "\nworst: the most cost of one key that was admitted within one duration, at any\n"
      "time; ratio: the same / limit. allowed, refused: wrongly, since sliding_log decided\n"
      "otherwise on the same requests; error: both / requests.\n\n";
  text += to_text(costs_table(comparison, costs));
  text +=
      "\nbytes per key: in Weir, with the slot in its table. at least: the numbers that the\n"
      "algorithm must remember, 8 bytes each. ns: Limiter::check() on this machine,\n"
      "the fastest of three runs.\n";
  return text;
}

std::string svg_report(const Subject& subject, const Traffic& traffic, const Comparison& comparison,
                       int64_t windows) {
  const Millis duration = comparison.limit.duration;
  const Excerpt excerpt = excerpt_of(traffic, duration, windows);
  const auto limit = static_cast<double>(comparison.limit.limit);
  const std::vector<double> x = middles(excerpt);
  plot::LinePlot steps{.title = fmt::format("Cost admitted in each tenth of the duration ({} ms)",
                                            duration.count() / kStepsPerWindow)};
  plot::LinePlot trailing{.title = "Cost admitted in the last duration"};
  steps.x = x;
  steps.areas = {{"offered", "#c9d0d7", cost_per_step(traffic, excerpt, nullptr)}};
  steps.levels = {{limit / kStepsPerWindow, "limit / 10"}};
  trailing.levels = {{limit, "limit"}};
  for (const Line& line : kLines) {
    const Decisions& decisions = comparison.of(line.algorithm).decisions;
    steps.curves.push_back(
        {line.label, line.colour, x, cost_per_step(traffic, excerpt, &decisions)});
    trailing.curves.push_back(
        {line.label, line.colour, x, trailing_per_step(traffic, excerpt, decisions)});
  }
  for (plot::LinePlot* plot : {&steps, &trailing}) {
    plot->x_axis = plot::LinePlot::XAxis::kLinear;
    plot->to = static_cast<double>(excerpt.steps) / kStepsPerWindow;
    plot->x_label = fmt::format("time in durations of {} ms", duration.count());
    plot->width = 960;
  }
  const std::string key = traffic.keys.size() == 1 ? std::string()
                                                   : fmt::format("; the busiest of {} keys",
                                                                 grouped(traffic.keys.size()));
  return plot::to_svg(plot::LineImage{
      .title = fmt::format("weir lab: {}", subject.title),
      .subtitle = fmt::format("{}{}{}", describe(comparison.limit), key,
                              subject.meaning.empty() ? "" : "; " + subject.meaning),
      .panels = {steps, trailing}});
}

}  // namespace weir::lab
