// What is kept of a run: everything as JSON, the attacks as a picture.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/fleet/fleet.h"

namespace weir::bench {
namespace {

std::string joined(const std::vector<std::string>& items) {
  return fmt::format("[\n    {}\n  ]", fmt::join(items, ",\n    "));
}

std::string delays_json(const sim::FleetDelays& delays) {
  return fmt::format(R"({{"travel_ms":{{"count":{},"p50":{:.1f},"p99":{:.1f},"max":{:.1f}}},)"
                     R"("age_ms":{{"count":{},"p50":{:.1f},"p99":{:.1f},"max":{:.1f}}}}})",
                     delays.travel.size(), sim::quantile(delays.travel, 0.5),
                     sim::quantile(delays.travel, 0.99), sim::quantile(delays.travel, 1),
                     delays.age.size(), sim::quantile(delays.age, 0.5),
                     sim::quantile(delays.age, 0.99), sim::quantile(delays.age, 1));
}

std::string traffic_json(const sim::TrafficReport& r) {
  return fmt::format(
      R"("seconds":{},"admitted":{},"refused":{},"rows":{},"repeated":{},"presences":{},)"
      R"("write_statements":{},"read_statements":{},"rows_read":{},"ledger_rows":{:.0f},)"
      R"("by_rule":{{"presence":{},"contended":{},"exhaustion":{},"roll_over":{}}},)"
      R"("full_cells":{},"overshoot":{:.5f},"worst":{{"limit":{},"admitted":{},"recent":{},)"
      R"("unexcused":{}}},"worst_unexcused":{:.4f},"longest_delay_ms":{},"sharing_share":{:.6f},)"
      R"("bound":{:.4f},"delays":{})",
      r.seconds, r.admitted, r.refused, r.load.rows, r.repeated, r.load.presences,
      r.load.statements, r.load.reads, r.load.rows_read, r.live_rows, r.kinds.presence,
      r.kinds.contended, r.kinds.exhaustion, r.kinds.roll_over, r.full_cells, r.overshoot,
      r.worst.limit, r.worst.admitted, r.worst.recent, r.worst.unexcused, r.worst_unexcused,
      r.longest_delay.count(), r.sharing_share, r.bound, delays_json(r.delays));
}

std::string attack_json(const AttackRun& run) {
  return fmt::format(
      R"({{"attack":"{}","policy":"{}","regions":{},"processes":{},"mean":{:.4f},"worst":{:.4f},)"
      R"("recent":{:.4f},"unexcused":{:.4f},"rows_per_window":{:.1f}}})",
      run.attack, run.policy, run.regions, run.processes, run.report.mean, run.report.worst,
      run.report.recent, run.report.unexcused, run.report.rows_per_window);
}

// Lengths in pixels.
constexpr double kLeft = 200;
constexpr double kPlotWidth = 520;
constexpr double kStep = 22;

std::string text(double x, double y, const char* kind, const std::string& words) {
  return fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" class=\"{}\">{}</text>\n", x, y, kind, words);
}

}  // namespace

std::string fleet_json(const FleetResults& results, const Machine& machine) {
  std::string out = "{\n  \"machine\": {";
  for (size_t i = 0; i < machine.size(); ++i) {
    out += fmt::format("{}\n    \"{}\": \"{}\"", i == 0 ? "" : ",", machine[i].first,
                       machine[i].second);
  }
  out += fmt::format("\n  }},\n  \"quick\": {}", results.quick);
  std::vector<std::string> items;
  for (const TrafficRun& run : results.traffic) {
    items.push_back(fmt::format(R"({{"mood":"{}","policy":"{}","took_seconds":{:.1f},{}}})",
                                run.mood, run.policy, run.took, traffic_json(run.report)));
  }
  out += ",\n  \"traffic\": " + joined(items);
  items.clear();
  for (const AttackRun& run : results.attacks) items.push_back(attack_json(run));
  for (const AttackRun& run : results.lone) items.push_back(attack_json(run));
  out += ",\n  \"attacks\": " + joined(items);
  for (const sim::FloodReport& flood : results.flood) {
    items.clear();
    for (const sim::FloodSecond& second : flood.seconds) {
      items.push_back(
          fmt::format(R"({{"fresh":{},"rows":{},"waiting":{},"left_out":{},"bound":{:.4f}}})",
                      second.fresh, second.rows, second.waiting, second.left_out, second.bound));
    }
    out += fmt::format(
        ",\n  \"flood\": {{\"worst\":{:.4f},\"unexcused\":{:.4f},\"calm\":{},\"flood\":{},"
        "\"seconds\":{}}}",
        flood.worst, flood.unexcused, delays_json(flood.calm), delays_json(flood.flood),
        joined(items));
  }
  for (const sim::TrafficReport& report : results.crowded) {
    out += fmt::format(",\n  \"crowded\": {{{}}}", traffic_json(report));
  }
  return out + "\n}\n";
}

std::string fleet_chart(const FleetResults& results) {
  constexpr uint32_t kRegions = 10;
  std::vector<const AttackRun*> runs;
  double most = 1;
  for (const AttackRun& run : results.attacks) {
    if (run.regions != kRegions || run.processes != kRegions) continue;
    runs.push_back(&run);
    most = std::max(most, run.report.mean);
  }
  if (runs.empty()) return {};
  // Those of one attack side by side.
  std::stable_sort(runs.begin(), runs.end(),
                   [](const AttackRun* a, const AttackRun* b) { return a->attack < b->attack; });
  const double scale = kPlotWidth / std::ceil(most);
  std::string body;
  double y = 74;
  std::string last;
  for (const AttackRun* run : runs) {
    if (run->attack != last) {
      y += 26;
      body += text(24, y - 8, "group", run->attack);
      last = run->attack;
    }
    const bool ours = run->policy == "weir";
    const double width = run->report.mean * scale;
    body += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"18\" class=\"{}\"/>\n", kLeft, y,
        width, ours ? "weir" : "peer");
    body += text(24, y + 13, "label", ours ? "Weir" : "floor 50 %, every 10 s");
    body += text(kLeft + width + 6, y + 13, "label", fmt::format("{:.2f}", run->report.mean));
    y += kStep;
  }
  const double limit = kLeft + scale;
  body += fmt::format(
      "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"74\" y2=\"{1:.0f}\" class=\"limit\"/>\n", limit,
      y + 4);
  body += text(limit - 16, y + 20, "note", "the limit");
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">\n",
      kLeft + kPlotWidth + 70, y + 36);
  out +=
      "<style>text{font-family:'DejaVu Sans',Verdana,sans-serif;fill:#1c2733}"
      ".title{font-size:18px;font-weight:bold}.group{font-size:13px;font-weight:bold}"
      ".label{font-size:12px}.note{font-size:11px;fill:#5b6875}.weir{fill:#1668b8}"
      ".peer{fill:#a9b4bf}.limit{stroke:#b3261e;stroke-dasharray:4 3}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  out += text(24, 32, "title", "Admitted per window in ten regions, in limits (shorter is better)");
  out += text(24, 52, "note", "One key under attack, simulated; both rules in the same limiter.");
  return out + body + "</svg>\n";
}

}  // namespace weir::bench
