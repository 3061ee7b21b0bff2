#include "sim/report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "plot/figure.h"
#include "plot/histogram.h"
#include "plot/line_plot.h"
#include "plot/text.h"
#include "plot/ticks.h"
#include "sim/report/figures.h"
#include "sim/report/saw_tooth.h"

namespace weir::sim {
namespace {

using plot::Curve;
using plot::kThinSpace;
using plot::LinePlot;

constexpr size_t kRegionColours = 8;
constexpr size_t kVariantColours = 5;
constexpr double kHalfWidth = 530;

using Variants = std::vector<Results>;

// Regions that are drawn in one colour: the busiest each have their own, the others share one.
struct RegionGroup {
  std::string label;
  std::string colour;
  std::vector<size_t> regions;  // indexes
};
using RegionGroups = std::vector<RegionGroup>;

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::isfinite(value) ? value : 0;
  return sum;
}

RegionGroups group_regions(const Results& results) {
  std::vector<double> load(results.regions.size(), 0.0);
  for (size_t i = 0; i < load.size(); ++i) {
    const Series* series = find_series(results, "admitted:" + results.regions[i]);
    if (series) load[i] = sum_of(series->values);
  }
  std::vector<size_t> order(load.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&load](size_t a, size_t b) { return load[a] > load[b]; });
  std::vector<size_t> shown(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                               order.size(), kRegionColours)));
  std::ranges::sort(shown);
  RegionGroups groups;
  for (size_t i = 0; i < shown.size(); ++i) {
    groups.push_back({.label = results.regions[shown[i]],
                      .colour = fmt::format("var(--c{})", i),
                      .regions = {shown[i]}});
  }
  if (order.size() > kRegionColours) {
    groups.push_back({.label = fmt::format("{} others", order.size() - kRegionColours),
                      .colour = "var(--others)",
                      .regions = {order.begin() + kRegionColours, order.end()}});
  }
  return groups;
}

std::vector<double> second_numbers(size_t count) {
  std::vector<double> x(count);
  std::iota(x.begin(), x.end(), 0.0);
  return x;
}

void add_to(std::vector<double>& sum, const std::vector<double>& values) {
  sum.resize(std::max(sum.size(), values.size()));
  for (size_t i = 0; i < values.size(); ++i) sum[i] += std::isfinite(values[i]) ? values[i] : 0;
}

std::string duration_text(Millis duration) {
  const auto seconds = static_cast<double>(duration.count()) / 1000;
  if (seconds >= 120 && std::fmod(seconds, 60) == 0) {
    return plot::readable(seconds / 60, kThinSpace) + " min";
  }
  return plot::readable(seconds, kThinSpace) + " s";
}

std::vector<double> region_sum(const Spotlight& key, const std::vector<size_t>& regions,
                               size_t count) {
  std::vector<double> sum(count, 0.0);
  for (const size_t region : regions) {
    if (region >= key.admitted.size()) continue;
    const auto& values = key.admitted[region];
    for (size_t i = 0; i < std::min(count, values.size()); ++i) sum[i] += values[i];
  }
  return sum;
}

std::vector<plot::Span> spans_of(const Results& results) {
  std::vector<plot::Span> spans;
  for (const FaultSpan& fault : results.faults) {
    spans.push_back({.label = fault.label, .from = fault.from, .to = fault.to});
  }
  return spans;
}

LinePlot key_plot(const Results& run, const Spotlight& key, const RegionGroups& groups) {
  size_t count = key.offered.size();
  for (const auto& each : key.admitted) count = std::max(count, each.size());
  const SawTooth saw_tooth(key, count);
  LinePlot plot{.title = key.name};
  const bool short_window = key.duration < Millis(1000);
  const char* meaning = "Cumulative admissions in the window";
  if (saw_tooth.whole_windows()) meaning = "Admissions per window";
  if (short_window) meaning = "Admissions per second";
  plot.note = fmt::format("{}, by region; limit {} per {}", meaning,
                          plot::readable(static_cast<double>(key.limit), kThinSpace),
                          duration_text(key.duration));
  plot.to = static_cast<double>(count);
  plot.x = saw_tooth.x();
  for (const RegionGroup& group : groups) {
    plot.areas.push_back({.label = group.label,
                          .colour = group.colour,
                          .values = saw_tooth.cumulative(region_sum(key, group.regions, count))});
  }
  const std::vector<double> offered = saw_tooth.cumulative(key.offered);
  const double demand = offered.empty() ? 0 : std::ranges::max(offered);
  const double windows =
      short_window ? 1000.0 / static_cast<double>(std::max<int64_t>(key.duration.count(), 1)) : 1;
  const double limit = static_cast<double>(key.limit) * windows;
  plot.top =
      std::max({stack_height(plot) * 1.05, limit * 1.15, std::min(demand * 1.02, limit * 2)});
  plot.curves.push_back(
      {.label = demand > plot.top ? "offered (beyond the top of the axis)" : "offered",
       .colour = "var(--ink)",
       .x = plot.x,
       .y = offered,
       .weight = Curve::Weight::kFaint});
  plot.levels.push_back({.at = limit, .label = "limit"});
  plot.spans = spans_of(run);
  return plot;
}

// The plot of one variant in full width, or the plots of several side by side with the same scale.
// `make` leaves the title empty if there is nothing to show.
template <typename Make>
std::string for_each_variant(const Variants& variants, const Make& make) {
  std::vector<LinePlot> plots;
  double top = 0;
  for (const Results& run : variants) {
    plots.push_back(make(run));
    top = std::max({top, plots.back().top, stack_height(plots.back())});
  }
  std::string text;
  for (size_t i = 0; i < plots.size(); ++i) {
    LinePlot& plot = plots[i];
    if (plot.title.empty()) continue;
    plot.top = top;
    if (variants.size() > 1) {
      plot.width = kHalfWidth;
      plot.height = 230;
      plot.title += ", " + variant_name(variants[i]);
    }
    text += to_html(plot);
  }
  return variants.size() > 1 && !text.empty() ? plot::side_by_side(text) : text;
}

LinePlot traffic_plot(const Results& run, const RegionGroups& groups) {
  LinePlot plot{.title = "Requests per second"};
  plot.note = "Admitted by region; denied on top";
  size_t count = 0;
  for (const RegionGroup& group : groups) {
    plot::Area area{.label = group.label, .colour = group.colour, .values = {}};
    for (const size_t region : group.regions) {
      if (region >= run.regions.size()) continue;
      const Series* series = find_series(run, "admitted:" + run.regions[region]);
      if (series) add_to(area.values, series->values);
    }
    count = std::max(count, area.values.size());
    plot.areas.push_back(std::move(area));
  }
  if (const Series* denied = find_series(run, "denied")) {
    plot.areas.push_back({.label = "denied", .colour = "var(--denied)", .values = denied->values});
    count = std::max(count, denied->values.size());
  }
  if (count == 0) return LinePlot{};
  plot.x = second_numbers(count);
  plot.to = static_cast<double>(count > 1 ? count - 1 : 1);
  plot.spans = spans_of(run);
  return plot;
}

std::string series_figure(const Variants& variants, std::string_view key) {
  LinePlot plot{.title = "", .width = kHalfWidth, .height = 180};
  for (size_t i = 0; i < variants.size(); ++i) {
    const Series* series = find_series(variants[i], key);
    if (!series || series->values.empty()) continue;
    if (plot.title.empty()) plot.title = series->label;
    plot.to = std::max(plot.to, static_cast<double>(series->values.size()) - 1);
    plot.curves.push_back({.label = variant_name(variants[i]),
                           .colour = variant_colour(i),
                           .x = second_numbers(series->values.size()),
                           .y = series->values});
  }
  if (plot.curves.empty()) return {};
  if (!plot.title.empty() && plot.title[0] >= 'a' && plot.title[0] <= 'z') {
    plot.title[0] = static_cast<char>(plot.title[0] - 'a' + 'A');
  }
  plot.spans = spans_of(variants.front());
  return to_html(plot);
}

std::vector<double> shares_in(const std::vector<double>& edges, const std::vector<double>& values) {
  std::vector<double> bins(edges.size() - 1, 0.0);
  double all = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    // A bin includes its upper edge: a window filled exactly to the limit lies left of 1.
    const auto upper = std::lower_bound(edges.begin() + 1, edges.end() - 1, value - 1e-9);
    ++bins[static_cast<size_t>(upper - edges.begin()) - 1];
    ++all;
  }
  for (double& bin : bins) bin = all > 0 ? 100 * bin / all : 0;
  return bins;
}

// The cumulative distribution of the values, at enough points to look smooth.
Curve distribution(std::vector<double> values, const std::string& label, size_t variant) {
  std::erase_if(values, [](double value) { return !std::isfinite(value) || value < 0; });
  std::ranges::sort(values);
  Curve curve{.label = label, .colour = variant_colour(variant), .x = {}, .y = {}};
  constexpr size_t kMaxPoints = 400;
  const size_t points = std::min(kMaxPoints, values.size());
  for (size_t i = 0; i < points; ++i) {
    const size_t at = points == 1 ? 0 : i * (values.size() - 1) / (points - 1);
    curve.x.push_back(values[at]);
    curve.y.push_back(100.0 * static_cast<double>(at + 1) / static_cast<double>(values.size()));
  }
  return curve;
}

}  // namespace

std::string variant_colour(size_t variant) {
  return fmt::format("var(--v{})", std::min(variant, kVariantColours - 1));
}

std::string key_charts(const Variants& variants) {
  const RegionGroups groups = group_regions(variants.front());
  std::string text;
  for (size_t i = 0; i < variants.front().spotlights.size(); ++i) {
    text += for_each_variant(variants, [&](const Results& run) {
      return i < run.spotlights.size() ? key_plot(run, run.spotlights[i], groups) : LinePlot{};
    });
  }
  return text.empty() ? text : "<h2>Selected keys</h2>" + text;
}

std::string traffic_charts(const Variants& variants) {
  const RegionGroups groups = group_regions(variants.front());
  const std::string text = for_each_variant(
      variants, [&groups](const Results& run) { return traffic_plot(run, groups); });
  return text.empty() ? text : "<h2>Traffic</h2>" + text;
}

std::string accuracy_chart(const Variants& variants) {
  plot::Histogram histogram{
      .title = "Window usage",
      .note = "Windows with a demand of at least the limit. Windows right of 1 exceeded it.",
      .x_label = "admitted ÷ limit",
      .edges = {0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5},
      .sets = {}};
  double max = 0;
  double min = 1;
  for (const Results& run : variants) {
    for (const double share : run.cell_shares) {
      if (!std::isfinite(share)) continue;
      max = std::max(max, share);
      min = std::min(min, share);
    }
    const double bound = run.figure("bound").value_or(0);
    if (std::isfinite(bound)) max = std::max(max, bound);
  }
  if (min < 0.5) histogram.edges.insert(histogram.edges.begin(), 0);
  for (const double edge : {2.0, 3.0, 5.0, 10.0, 100.0}) {
    if (max > histogram.edges.back()) histogram.edges.push_back(edge);
  }
  for (size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].cell_shares.empty()) continue;
    histogram.sets.push_back({.label = variant_name(variants[i]),
                              .colour = variant_colour(i),
                              .values = shares_in(histogram.edges, variants[i].cell_shares)});
  }
  if (histogram.sets.empty()) return {};
  histogram.markers.push_back({.at = 1, .label = "limit"});
  if (const auto bound = variants.front().figure("bound");
      bound && *bound > 0 && std::isfinite(*bound)) {
    histogram.markers.push_back(
        {.at = *bound, .label = fmt::format("bound {}", plot::readable(*bound, kThinSpace))});
  }
  return "<h2>Accuracy</h2>" + to_html(histogram);
}

std::string cost_charts(const Variants& variants) {
  std::string text;
  for (const char* key : {"rows", "rows_read", "origin_commands", "degraded"}) {
    text += series_figure(variants, key);
  }
  return text.empty() ? text : "<h2>Cost</h2>" + plot::side_by_side(text);
}

std::string propagation_chart(const Variants& variants) {
  LinePlot plot{.title = "Propagation delay"};
  plot.note =
      "From an admission to its use in another region: percent of admissions within a delay";
  plot.x_label = "ms";
  plot.top = 100;
  plot.unit = "%";
  double min = INFINITY;
  double max = 0;
  for (size_t i = 0; i < variants.size(); ++i) {
    Curve curve = distribution(variants[i].delays_ms, variant_name(variants[i]), i);
    if (curve.x.empty()) continue;
    min = std::min(min, curve.x.front());
    max = std::max(max, curve.x.back());
    plot.curves.push_back(std::move(curve));
  }
  if (plot.curves.empty()) return {};
  const bool wide = min > 0 && max > 20 * min;
  plot.x_axis = wide ? LinePlot::XAxis::kLogarithmic : LinePlot::XAxis::kLinear;
  plot.from = wide ? min : 0;
  plot.to = wide ? max : plot::ticks_up_to(max, 10).back();
  return "<h2>Propagation between regions</h2>" + to_html(plot);
}

}  // namespace weir::sim
