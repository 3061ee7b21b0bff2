#include "sim/report/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/text.h"
#include "sim/scenario/figures.h"

namespace weir::sim {

using plot::readable;

namespace {

constexpr std::string_view kUnknownGroup = "other";

std::string_view group_of(const Figure& figure) {
  const FigureName* known = find_figure(figure.key);
  return known == nullptr ? kUnknownGroup : known->group;
}

// Properties of the scenario: a change is neither better nor worse.
bool is_input(std::string_view key) {
  return key == "offered_per_second" || key == "bound";
}

}  // namespace

std::string with_unit(const Figure& figure, std::string_view thousands) {
  // A bound while an origin is lost.
  if (std::isinf(figure.value)) return "no bound";
  const std::string number = readable(figure.value, thousands);
  if (figure.unit.empty() || !std::isfinite(figure.value)) return number;
  const bool joined = figure.unit == "%" || figure.unit.starts_with('/');
  return joined ? number + figure.unit : number + " " + figure.unit;
}

std::string short_label(const Figure& figure) {
  const FigureName* known = find_figure(figure.key);
  return known == nullptr ? figure.label : std::string(known->name);
}

std::vector<FigureGroup> grouped(const std::vector<Figure>& figures) {
  std::vector<FigureGroup> groups;
  const auto named = [&](std::string_view title) -> FigureGroup& {
    const auto found = std::ranges::find(groups, title, &FigureGroup::title);
    if (found != groups.end()) return *found;
    groups.push_back({.title = std::string(title)});
    return groups.back();
  };
  for (const FigureName& known : known_figures()) named(known.group);
  for (const Figure& figure : figures) named(group_of(figure)).figures.push_back(figure);
  std::erase_if(groups, [](const FigureGroup& group) { return group.figures.empty(); });
  return groups;
}

Difference difference(const Figure& from, const Figure& to) {
  if (readable(from.value) == readable(to.value)) return Difference::kNone;
  if (is_input(from.key) || !std::isfinite(from.value) || !std::isfinite(to.value)) {
    return Difference::kNeither;
  }
  const bool less = to.value < from.value;
  return less == from.less_is_better ? Difference::kBetter : Difference::kWorse;
}

std::string_view to_string(Difference difference) {
  switch (difference) {
    case Difference::kNone: return "same";
    case Difference::kBetter: return "better";
    case Difference::kWorse: return "worse";
    case Difference::kNeither: break;
  }
  return "";
}

const Figure* find_figure(const Results& results, std::string_view key) {
  const auto found = std::ranges::find(results.figures, key, &Figure::key);
  return found == results.figures.end() ? nullptr : &*found;
}

const Series* find_series(const Results& results, std::string_view key) {
  const auto found = std::ranges::find(results.series, key, &Series::key);
  return found == results.series.end() ? nullptr : &*found;
}

std::string variant_name(const Results& results) {
  return results.variant.empty() ? "as written" : results.variant;
}

std::string speed_of(const Results& results, std::string_view thousands) {
  std::string text = readable(results.simulated_seconds, thousands) + " s simulated";
  if (!(results.took_seconds > 0)) return text;
  const std::string took = results.took_seconds < 10
                               ? fmt::format("{:.1f}", results.took_seconds)
                               : readable(std::round(results.took_seconds), thousands);
  const double speed = results.simulated_seconds / results.took_seconds;
  return text + fmt::format(" in {} s ({}x)", took,
                            readable(speed >= 10 ? std::round(speed) : speed, thousands));
}

}  // namespace weir::sim
