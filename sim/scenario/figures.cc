#include "sim/scenario/figures.h"

#include <algorithm>
#include <array>

namespace weir::sim {
namespace {

constexpr std::string_view kTraffic = "traffic";
constexpr std::string_view kExactness = "exactness";
constexpr std::string_view kCost = "cost";
constexpr std::string_view kPropagation = "propagation";

constexpr std::array<FigureName, 25> kFigures = {{
    {"offered_per_second", kTraffic, "requests offered", "requests per second", "/s", false},
    {"denied", kTraffic, "denied", "denied, of all requests", "%"},
    {"degraded", kTraffic, "degraded verdicts", "degraded verdicts, of all answers", "%"},
    {"unanswered", kTraffic, "unanswered requests", "requests without an answer", ""},
    {"full_cells", kExactness, "windows at full demand",
     "windows with requests for a limit or more", "", false},
    {"mean_cell", kExactness, "mean of those, in limits",
     "mean admitted in those windows, in limits", ""},
    {"worst_cell", kExactness, "worst window, in limits", "most admitted in one window, in limits",
     ""},
    {"worst_window", kExactness, "worst span, in limits",
     "most admitted in any span as long as a window, in limits", ""},
    {"unexcused", kExactness, "worst without recent cost",
     "most admitted in one window without recent admissions, in limits", ""},
    {"bound", kExactness, "exported bound, in limits",
     "largest bound that a process exported, in limits", ""},
    {"beyond_bound", kExactness, "beyond the exported bound",
     "most admitted beyond the bound exported at that time, in limits", ""},
    {"false_denials", kExactness, "false denials",
     "denied although the request fitted the true counts", "%"},
    {"origin_commands", kCost, "origin commands", "commands to the origins per second", "/s"},
    {"rows", kCost, "ledger rows written", "ledger rows written per second", "/s"},
    {"batches", kCost, "ledger batches written", "batches of rows written per second", "/s"},
    {"rows_read", kCost, "ledger rows read", "ledger rows read per second", "/s"},
    {"bridge_commands", kCost, "bridge commands", "commands of bridges to the origins per second",
     "/s"},
    {"bridge_updates", kCost, "bridge updates",
     "tuples that bridges update at the origins per second", "/s"},
    {"message_bytes", kCost, "bridge message bytes",
     "bytes of messages from the origins to the processes per second", "/s"},
    {"travel_p50", kPropagation, "row sent to used, median",
     "from sending a row to its use in another region, median", "ms"},
    {"travel_p99", kPropagation, "row sent to used, 99 %",
     "from sending a row to its use in another region, 99 %", "ms"},
    {"propagation_p50", kPropagation, "admitted to used, median",
     "from an admission to its use in another region, waiting time included, median", "ms"},
    {"propagation_p99", kPropagation, "admitted to used, 99 %",
     "from an admission to its use in another region, waiting time included, 99 %", "ms"},
    {"lost_with_nodes", kPropagation, "cost lost with processes",
     "accepted cost that was lost with its process", ""},
    {"disagreements", kPropagation, "disagreements at the end",
     "windows on which processes disagree after the calm time", ""},
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
