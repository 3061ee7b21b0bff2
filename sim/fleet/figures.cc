#include "sim/fleet/figures.h"

#include <algorithm>
#include <array>

namespace weir::sim {
namespace {

constexpr std::array<FigureName, 20> kFigures = {{
    {"offered_per_second", "requests per second", "/s", false},
    {"denied", "denied, of all requests", "%"},
    {"degraded", "decided on less than was to be known", "%"},
    {"unanswered", "requests that nobody answered", ""},
    {"full_cells", "windows asked for a limit or more", "", false},
    {"mean_cell", "mean of those, in limits", ""},
    {"worst_cell", "most admitted in one window, in limits", ""},
    {"worst_window", "most admitted in any span as long as a window, in limits", ""},
    {"unexcused", "worst window without what was too recent to be known, in limits", ""},
    {"bound", "what the processes say it can be at most, in limits", ""},
    {"false_denials", "denied although there was room", "%"},
    {"false_admissions", "admitted although there was none", "%"},
    {"origin_commands", "commands to the origins per second", "/s"},
    {"rows", "ledger rows written per second", "/s"},
    {"presences", "presences written per second", "/s"},
    {"rows_read", "ledger rows read per second", "/s"},
    {"propagation_p50", "from an admission to its use elsewhere, median", "ms"},
    {"propagation_p99", "from an admission to its use elsewhere, 99 %", "ms"},
    {"lost_with_nodes", "cost that died untold with its process", ""},
    {"disagreements", "windows on which processes disagree after the calm", ""},
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
