#include "sim/scenario/figures.h"

#include <algorithm>
#include <array>

namespace weir::sim {
namespace {

constexpr std::string_view kTraffic = "traffic";
constexpr std::string_view kExactness = "exactness";
constexpr std::string_view kCost = "cost";
constexpr std::string_view kNews = "news";

constexpr std::array<FigureName, 22> kFigures = {{
    {"offered_per_second", kTraffic, "requests offered", "requests per second", "/s", false},
    {"denied", kTraffic, "denied", "denied, of all requests", "%"},
    {"degraded", kTraffic, "decided on less than all", "decided on less than was to be known", "%"},
    {"unanswered", kTraffic, "left without an answer", "requests that nobody answered", ""},
    {"full_cells", kExactness, "windows asked to the full", "windows asked for a limit or more", "",
     false},
    {"mean_cell", kExactness, "mean of those, in limits", "mean of what those admitted, in limits",
     ""},
    {"worst_cell", kExactness, "worst window, in limits", "most admitted in one window, in limits",
     ""},
    {"worst_window", kExactness, "worst span, in limits",
     "most admitted in any span as long as a window, in limits", ""},
    {"unexcused", kExactness, "worst but for what is recent",
     "worst window without what was too recent to be known, in limits", ""},
    {"bound", kExactness, "bound of that, in limits",
     "what the processes say that can be at most, in limits", ""},
    {"beyond_bound", kExactness, "beyond the bound of its time",
     "most admitted beyond the bound that the process exported at that time, in limits", ""},
    {"false_denials", kExactness, "denied although not full",
     "denied although one who knew every admission at once would have had room", "%"},
    {"origin_commands", kCost, "origin commands", "commands to the origins per second", "/s"},
    {"rows", kCost, "ledger rows written", "ledger rows written per second", "/s"},
    {"presences", kCost, "presences written", "presences written per second", "/s"},
    {"rows_read", kCost, "ledger rows read", "ledger rows read per second", "/s"},
    {"travel_p50", kNews, "row sent to used, median",
     "from sending a row to its use elsewhere, median", "ms"},
    {"travel_p99", kNews, "row sent to used, 99 %", "from sending a row to its use elsewhere, 99 %",
     "ms"},
    {"propagation_p50", kNews, "admitted to used, median",
     "from an admission to its use elsewhere, what is held back included, median", "ms"},
    {"propagation_p99", kNews, "admitted to used, 99 %",
     "from an admission to its use elsewhere, what is held back included, 99 %", "ms"},
    {"lost_with_nodes", kNews, "cost lost with processes", "cost that died untold with its process",
     ""},
    {"disagreements", kNews, "disagreements in the end",
     "windows on which processes disagree after the calm", ""},
}};

}  // namespace

std::span<const FigureName> known_figures() {
  return kFigures;
}

Figure figure_of(std::string_view key, double value) {
  const FigureName& name = *find_figure(key);
  return {.key = std::string(name.key),
          .label = std::string(name.label),
          .unit = std::string(name.unit),
          .value = value,
          .less_is_better = name.less_is_better};
}

const FigureName* find_figure(std::string_view key) {
  const auto* found = std::find_if(kFigures.begin(), kFigures.end(),
                                   [&](const FigureName& figure) { return figure.key == key; });
  return found == kFigures.end() ? nullptr : found;
}

}  // namespace weir::sim
