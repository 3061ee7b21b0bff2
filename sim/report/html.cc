#include "sim/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/report/figures.h"
#include "sim/report/page_style.h"
#include "sim/report/plot.h"
#include "sim/report/saw_tooth.h"
#include "sim/report/tables.h"

namespace weir::sim {
namespace {

constexpr size_t kRegionColours = 8;
constexpr size_t kVariantColours = 5;
constexpr double kHalfPage = 530;

using Variants = std::vector<Results>;

std::string variant_colour(size_t variant) {
  return fmt::format("var(--v{})", std::min(variant, kVariantColours - 1));
}

// Which regions are drawn by themselves: the busiest, in the fleet's order; the rest together.
struct RegionColours {
  struct Group {
    std::string label;
    std::string colour;
    std::vector<size_t> regions;
  };
  std::vector<Group> groups;
};

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::isfinite(value) ? value : 0;
  return sum;
}

RegionColours colours_of(const Results& results) {
  std::vector<double> busy(results.regions.size(), 0.0);
  for (size_t i = 0; i < busy.size(); ++i) {
    const Series* series = find_series(results, "admitted:" + results.regions[i]);
    if (series) busy[i] = sum_of(series->values);
  }
  std::vector<size_t> order(busy.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&busy](size_t a, size_t b) { return busy[a] > busy[b]; });
  std::vector<size_t> own(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                             order.size(), kRegionColours)));
  std::ranges::sort(own);
  RegionColours all;
  for (size_t i = 0; i < own.size(); ++i) {
    all.groups.push_back({results.regions[own[i]], fmt::format("var(--c{})", i), {own[i]}});
  }
  if (order.size() > kRegionColours) {
    all.groups.push_back({fmt::format("{} others", order.size() - kRegionColours),
                          "var(--others)",
                          {order.begin() + kRegionColours, order.end()}});
  }
  return all;
}

std::vector<double> seconds(size_t count) {
  std::vector<double> x(count);
  std::iota(x.begin(), x.end(), 0.0);
  return x;
}

void add(std::vector<double>& sum, const std::vector<double>& values) {
  sum.resize(std::max(sum.size(), values.size()));
  for (size_t i = 0; i < values.size(); ++i) sum[i] += std::isfinite(values[i]) ? values[i] : 0;
}

std::string duration_text(Millis duration) {
  const auto seconds_long = static_cast<double>(duration.count()) / 1000;
  if (seconds_long >= 120 && std::fmod(seconds_long, 60) == 0) {
    return readable(seconds_long / 60, kThin) + " min";
  }
  return readable(seconds_long, kThin) + " s";
}

std::string page_header(const Results& base) {
  std::string text = fmt::format(
      "<p class=\"eyebrow\">Weir simulation</p><h1>{}</h1><p class=\"about\">{}</p>"
      "<p class=\"facts\">{} region{} &middot; {} nodes &middot; {} keys &middot; seed {} &middot; "
      "{} &middot; {} events</p>",
      escaped(base.scenario), escaped(base.about), base.regions.size(),
      base.regions.size() == 1 ? "" : "s", base.nodes,
      readable(static_cast<double>(base.keys), kThin), base.seed, speed_of(base, kThin),
      readable(static_cast<double>(base.events), kThin));
  return text;
}

std::string verdict(const Results& run, size_t of) {
  const std::string who = of > 1 ? fmt::format("{}: ", escaped(variant_name(run))) : std::string();
  if (run.broken) {
    return fmt::format("<p class=\"verdict bad\">&#10007; {}broken: {}</p>", who,
                       escaped(*run.broken));
  }
  const size_t all = run.expectations.size();
  if (all == 0) return {};
  const auto kept = static_cast<size_t>(std::ranges::count_if(run.expectations, &ExpectationResult::met));
  if (kept == all) {
    return fmt::format("<p class=\"verdict good\">&#10003; {}every promise was kept</p>", who);
  }
  return fmt::format("<p class=\"verdict bad\">&#10007; {}{} of {} promise{} not kept</p>", who,
                     all - kept, all, all == 1 ? " was" : "s were");
}

std::string cards(const Variants& variants) {
  std::string text = "<div class=\"cards\">";
  for (const char* key : {"worst_cell", "mean_cell", "bound", "denied", "false_denials", "rows",
                          "rows_read", "propagation_p99", "degraded", "offered_per_second"}) {
    const Figure* figure = find_figure(variants.front(), key);
    if (!figure) continue;
    text += fmt::format("<div class=\"card\" title=\"{}\"><p>{}</p><strong>{}</strong>",
                        escaped(figure->label), escaped(short_label(*figure)),
                        escaped(with_unit(*figure, kThin)));
    for (size_t i = 1; i < variants.size(); ++i) {
      const Figure* other = find_figure(variants[i], key);
      if (!other) continue;
      text += fmt::format(
          "<div class=\"other\" title=\"{}\"><i class=\"dot\" style=\"--swatch:{}\"></i><b>{}</b>{}"
          "</div>",
          escaped(variant_name(variants[i])), variant_colour(i), escaped(with_unit(*other, kThin)),
          difference_mark(*figure, *other));
    }
    text += "</div>";
  }
  return text + "</div>";
}

// Which variant is which colour, for the cards.
std::string variant_legend(const Variants& variants) {
  if (variants.size() < 2) return {};
  std::string text = "<div class=\"legend\" style=\"margin:12px 0\">";
  for (size_t i = 0; i < variants.size(); ++i) {
    text += fmt::format("<span><i class=\"dot\" style=\"--swatch:{}\"></i>{}</span>",
                        variant_colour(i), escaped(variant_name(variants[i])));
  }
  return text + "</div>";
}

std::vector<double> region_sum(const Spotlight& spotlight, const std::vector<size_t>& regions,
                               size_t count) {
  std::vector<double> sum(count, 0.0);
  for (const size_t region : regions) {
    if (region >= spotlight.admitted.size()) continue;
    const auto& values = spotlight.admitted[region];
    for (size_t i = 0; i < std::min(count, values.size()); ++i) sum[i] += values[i];
  }
  return sum;
}

// The highest that the layers reach together.
double height_of(const Plot& plot) {
  double most = 0;
  for (size_t i = 0; i < plot.x.size(); ++i) {
    double sum = 0;
    for (const Layer& layer : plot.layers) sum += i < layer.values.size() ? layer.values[i] : 0;
    if (sum > most) most = sum;
  }
  return most;
}

Plot spotlight_plot(const Results& run, const Spotlight& spotlight, const RegionColours& colours) {
  size_t count = spotlight.offered.size();
  for (const auto& each : spotlight.admitted) count = std::max(count, each.size());
  const SawTooth saw(spotlight, count);
  Plot plot{.title = spotlight.name};
  const bool short_window = spotlight.duration < Millis(1000);
  const char* what = "Admitted so far in the window";
  if (saw.whole_windows()) what = "Admitted in each window";
  if (short_window) what = "Admitted in each second";
  plot.note = fmt::format("{}, by region; {} in {} are allowed", what,
                          readable(static_cast<double>(spotlight.limit), kThin),
                          duration_text(spotlight.duration));
  plot.to = static_cast<double>(count);
  plot.x = saw.x();
  for (const RegionColours::Group& group : colours.groups) {
    plot.layers.push_back(
        {group.label, group.colour, saw.rising(region_sum(spotlight, group.regions, count))});
  }
  const std::vector<double> offered = saw.rising(spotlight.offered);
  const double asked = offered.empty() ? 0 : std::ranges::max(offered);
  const double windows =
      short_window ? 1000.0 / static_cast<double>(std::max<int64_t>(spotlight.duration.count(), 1))
                   : 1;
  const double limit = static_cast<double>(spotlight.limit) * windows;
  plot.top = std::max({height_of(plot) * 1.05, limit * 1.15, std::min(asked * 1.02, limit * 2)});
  plot.curves.push_back({asked > plot.top ? "offered (goes on above)" : "offered", "var(--ink)",
                         plot.x, offered, Curve::Weight::kFaint});
  plot.levels.push_back({limit, "limit"});
  plot.spans = run.faults;
  return plot;
}

std::string in_pair(const std::string& figures) {
  return "<div class=\"pair\">" + figures + "</div>";
}

// One below the other, or beside those of the other variants and with the same scale, so that they
// can be compared. `make` leaves the title empty where there is nothing to show.
template <typename Make>
std::string for_each_variant(const Variants& variants, const Make& make) {
  std::vector<Plot> plots;
  double top = 0;
  for (const Results& run : variants) {
    plots.push_back(make(run));
    top = std::max({top, plots.back().top, height_of(plots.back())});
  }
  std::string text;
  for (size_t i = 0; i < plots.size(); ++i) {
    Plot& plot = plots[i];
    if (plot.title.empty()) continue;
    plot.top = top;
    if (variants.size() > 1) {
      plot.width = kHalfPage;
      plot.height = 230;
      plot.title += ", " + variant_name(variants[i]);
    }
    text += to_figure(plot);
  }
  return variants.size() > 1 && !text.empty() ? in_pair(text) : text;
}

std::string spotlights(const Variants& variants, const RegionColours& colours) {
  std::string text;
  for (size_t i = 0; i < variants.front().spotlights.size(); ++i) {
    text += for_each_variant(variants, [&](const Results& run) {
      return i < run.spotlights.size() ? spotlight_plot(run, run.spotlights[i], colours) : Plot{};
    });
  }
  return text.empty() ? text : "<h2>Keys in the spotlight</h2>" + text;
}

Plot traffic_plot(const Results& run, const RegionColours& colours) {
  Plot plot{.title = "Requests per second"};
  plot.note = "Admitted, by region, and denied on top";
  size_t count = 0;
  for (const RegionColours::Group& group : colours.groups) {
    Layer layer{group.label, group.colour, {}};
    for (const size_t region : group.regions) {
      if (region >= run.regions.size()) continue;
      const Series* series = find_series(run, "admitted:" + run.regions[region]);
      if (series) add(layer.values, series->values);
    }
    count = std::max(count, layer.values.size());
    plot.layers.push_back(std::move(layer));
  }
  if (const Series* denied = find_series(run, "denied")) {
    plot.layers.push_back({"denied", "var(--denied)", denied->values});
    count = std::max(count, denied->values.size());
  }
  if (count == 0) return Plot{};
  plot.x = seconds(count);
  plot.to = static_cast<double>(count > 1 ? count - 1 : 1);
  plot.spans = run.faults;
  return plot;
}

std::string series_figure(const Variants& variants, std::string_view key) {
  Plot plot{.title = "", .width = kHalfPage, .height = 180};
  for (size_t i = 0; i < variants.size(); ++i) {
    const Series* series = find_series(variants[i], key);
    if (!series || series->values.empty()) continue;
    if (plot.title.empty()) plot.title = series->label;
    plot.to = std::max(plot.to, static_cast<double>(series->values.size()) - 1);
    plot.curves.push_back({variant_name(variants[i]), variant_colour(i),
                           seconds(series->values.size()), series->values});
  }
  if (plot.curves.empty()) return {};
  if (!plot.title.empty() && plot.title[0] >= 'a' && plot.title[0] <= 'z') {
    plot.title[0] = static_cast<char>(plot.title[0] - 'a' + 'A');
  }
  plot.spans = variants.front().faults;
  return to_figure(plot);
}

std::string cost(const Variants& variants) {
  std::string text;
  for (const char* key : {"rows", "rows_read", "origin_commands", "degraded"}) {
    text += series_figure(variants, key);
  }
  return text.empty() ? text : "<h2>What it cost</h2>" + in_pair(text);
}

std::vector<double> shares_in(const std::vector<double>& edges, const std::vector<double>& values) {
  std::vector<double> bins(edges.size() - 1, 0.0);
  double all = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    // A bin takes its upper edge: a window filled to the limit lies left of it.
    const auto upper = std::lower_bound(edges.begin() + 1, edges.end() - 1, value - 1e-9);
    ++bins[static_cast<size_t>(upper - edges.begin()) - 1];
    ++all;
  }
  for (double& bin : bins) bin = all > 0 ? 100 * bin / all : 0;
  return bins;
}

std::string exactness(const Variants& variants) {
  Bars bars{.title = "How full windows became",
            .note =
                "Of windows asked for at least their limit; admitted, in limits. What is right "
                "of 1 was too much.",
            .across_label = "admitted ÷ limit",
            .edges = {0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5},
            .sets = {}};
  double most = 0;
  double least = 1;
  for (const Results& run : variants) {
    for (const double share : run.cell_shares) {
      if (!std::isfinite(share)) continue;
      most = std::max(most, share);
      least = std::min(least, share);
    }
    most = std::max(most, run.figure("bound").value_or(0));
  }
  if (least < 0.5) bars.edges.insert(bars.edges.begin(), 0);
  for (const double edge : {2.0, 3.0, 5.0, 10.0, 100.0}) {
    if (most > bars.edges.back()) bars.edges.push_back(edge);
  }
  for (size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].cell_shares.empty()) continue;
    bars.sets.push_back({variant_name(variants[i]), variant_colour(i),
                         shares_in(bars.edges, variants[i].cell_shares)});
  }
  if (bars.sets.empty()) return {};
  bars.marks.push_back({1, "the limit"});
  if (const auto bound = variants.front().figure("bound"); bound && *bound > 0) {
    bars.marks.push_back({*bound, fmt::format("the bound, {}", readable(*bound, kThin))});
  }
  return "<h2>How exact it was</h2>" + to_figure(bars);
}

// The share of values up to each, at so many places that no step shows.
Curve distribution(std::vector<double> values, const std::string& label, size_t variant) {
  std::erase_if(values, [](double value) { return !std::isfinite(value) || value < 0; });
  std::ranges::sort(values);
  Curve curve{label, variant_colour(variant), {}, {}};
  constexpr size_t kPlaces = 400;
  const size_t places = std::min(kPlaces, values.size());
  for (size_t i = 0; i < places; ++i) {
    const size_t at = places == 1 ? 0 : i * (values.size() - 1) / (places - 1);
    curve.x.push_back(values[at]);
    curve.y.push_back(100.0 * static_cast<double>(at + 1) / static_cast<double>(values.size()));
  }
  return curve;
}

std::string news(const Variants& variants) {
  Plot plot{.title = "How soon others knew"};
  plot.note = "From an admission to its use in another region; percent known within so many ms";
  plot.across_label = "ms";
  plot.top = 100;
  plot.unit = "%";
  double least = INFINITY;
  double most = 0;
  for (size_t i = 0; i < variants.size(); ++i) {
    Curve curve = distribution(variants[i].delays_ms, variant_name(variants[i]), i);
    if (curve.x.empty()) continue;
    least = std::min(least, curve.x.front());
    most = std::max(most, curve.x.back());
    plot.curves.push_back(std::move(curve));
  }
  if (plot.curves.empty()) return {};
  const bool wide = least > 0 && most > 20 * least;
  plot.across = wide ? Plot::Across::kLogarithm : Plot::Across::kNumber;
  plot.from = wide ? least : 0;
  plot.to = wide ? most : ticks_up_to(most, 10).back();
  return "<h2>How news travelled</h2>" + to_figure(plot);
}

std::string story(const Variants& variants) {
  std::string text;
  for (const Results& run : variants) {
    if (!run.broken) continue;
    text += fmt::format("<h2>What led to it</h2><pre>");
    for (const std::string& event : run.last_events) text += escaped(event) + "\n";
    text += "</pre>";
  }
  return text;
}

std::string footer(const Variants& variants, std::string_view command) {
  std::string text = "<footer>";
  if (!command.empty()) text += fmt::format("To run it again:<pre>{}</pre>", escaped(command));
  for (const Results& run : variants) {
    text +=
        fmt::format("<div>{}: seed {}, fingerprint {:016x}, {}</div>", escaped(variant_name(run)),
                    run.seed, run.fingerprint, speed_of(run, kThin));
  }
  return text + "</footer>";
}

}  // namespace

std::string to_html(const std::vector<Results>& variants, std::string_view command) {
  if (variants.empty()) return {};
  const Results& base = variants.front();
  const RegionColours colours = colours_of(base);
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<title>{} - Weir simulation</title><style>{}</style></head>\n<body><main>\n",
      escaped(base.scenario), kPageStyle);
  text += page_header(base);
  for (const Results& run : variants) text += verdict(run, variants.size());
  text += story(variants) + variant_legend(variants) + cards(variants) + "\n";
  text += spotlights(variants, colours);
  const std::string traffic = for_each_variant(
      variants, [&colours](const Results& run) { return traffic_plot(run, colours); });
  if (!traffic.empty()) text += "<h2>Traffic</h2>" + traffic;
  text += exactness(variants) + cost(variants) + news(variants);
  text += promises_table(variants) + faults_table(base) + figures_table(variants) +
          footer(variants, command);
  return text + fmt::format("</main><script>{}</script></body></html>\n", kPageScript);
}

}  // namespace weir::sim
