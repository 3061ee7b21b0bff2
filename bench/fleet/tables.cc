#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "bench/fleet/fleet.h"

namespace weir::bench {
namespace {

using sim::TrafficReport;

struct Line {
  const char* what;
  std::function<std::string(const TrafficReport&)> value;
};

std::string per_second(uint64_t count, const TrafficReport& report) {
  return fmt::format("{:.1f}", static_cast<double>(count) / report.seconds);
}

std::string seconds_of(float millis) {
  return fmt::format("{:.2f} s", static_cast<double>(millis) / 1e3);
}

std::vector<Line> lines() {
  const auto rate = [](auto part) {
    return [part](const TrafficReport& report) { return per_second(part(report), report); };
  };
  const auto delay = [](auto part, double at) {
    return [part, at](const TrafficReport& report) {
      return seconds_of(sim::quantile(part(report), at));
    };
  };
  const auto travel = [](const TrafficReport& r) { return r.delays.travel; };
  const auto age = [](const TrafficReport& r) { return r.delays.age; };
  return {
      {"requests per s", rate([](const auto& r) { return r.admitted + r.refused; })},
      {"  of them denied",
       [](const auto& r) { return fmt::format("{:.1f} %", 100 * r.denied_share()); }},
      {"rows written per s", rate([](const auto& r) { return r.load.rows; })},
      {"  that told nothing new", rate([](const auto& r) { return r.repeated; })},
      {"  with a presence beside them", rate([](const auto& r) { return r.load.presences; })},
      {"statements that write, per s", rate([](const auto& r) { return r.load.statements; })},
      {"statements that read, per s", rate([](const auto& r) { return r.load.reads; })},
      {"rows read per s", rate([](const auto& r) { return r.load.rows_read; })},
      {"shared keys: windows that filled",
       [](const auto& r) { return fmt::format("{}", r.full_cells); }},
      {"  mean over-admission in those",
       [](const auto& r) { return fmt::format("{:.2f} %", 100 * r.overshoot); }},
      {"  worst window, in limits",
       [](const auto& r) { return fmt::format("{:.2f}", r.worst.share()); }},
      {"    of that, recent (last 2 D)",
       [](const auto& r) {
         return fmt::format("{:.2f}", static_cast<double>(r.worst.recent) /
                                          static_cast<double>(std::max<Count>(1, r.worst.limit)));
       }},
      {"  worst window without what is recent",
       [](const auto& r) { return fmt::format("{:.2f}", r.worst_unexcused); }},
      {"  D, the longest delay",
       [](const auto& r) { return seconds_of(static_cast<float>(r.longest_delay.count())); }},
      {"from sending a row to its use, p50", delay(travel, 0.5)},
      {"  p99", delay(travel, 0.99)},
      {"  the longest", delay(travel, 1)},
      {"age of an admission when known, p50", delay(age, 0.5)},
      {"  p99", delay(age, 0.99)},
      {"run_sharing, of one core, per process",
       [](const auto& r) { return fmt::format("{:.2f} %", 100 * r.sharing_share); }},
  };
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

}  // namespace

std::string table_of_traffic(const FleetResults& results) {
  std::string out = "The RFC's traffic: 33 processes, 10 regions, 24,000 keys, windows of 60 s\n\n";
  std::string moods = fmt::format("{:<40}", "");
  std::string policies = moods;
  for (const TrafficRun& run : results.traffic) {
    moods += fmt::format("{:>12}", run.mood);
    policies += fmt::format("{:>12}", run.policy);
  }
  out += trimmed(moods) + trimmed(policies);
  for (const Line& line : lines()) {
    out += fmt::format("{:<40}", line.what);
    for (const TrafficRun& run : results.traffic) {
      out += fmt::format("{:>12}", line.value(run.report));
    }
    out += '\n';
  }
  return out;
}

std::string table_of_attacks(const FleetResults& results) {
  std::string out = "Attacks on one key of 1,000 a minute: admitted in a window, in limits\n\n";
  out += fmt::format("{:<20}{:>8}{:>11}   {:>22}   {:>22}   {}\n", "", "", "", "------ weir ------",
                     "------ floor -----", "bar for weir");
  out += fmt::format("{:<20}{:>8}{:>11}   {:>6}{:>8}{:>8}   {:>6}{:>8}{:>8}\n", "attack", "regions",
                     "processes", "mean", "worst", "rows", "mean", "worst", "rows");
  const auto figures = [](const AttackRun& run) {
    return fmt::format("{:>6.2f}{:>8.2f}{:>8.0f}", run.report.mean, run.report.worst,
                       run.report.rows_per_window);
  };
  const auto add = [&](const std::vector<AttackRun>& runs) {
    for (const AttackRun& run : runs) {
      if (run.policy != "weir") continue;
      const auto other = std::find_if(runs.begin(), runs.end(), [&](const AttackRun& each) {
        return each.policy != run.policy && each.attack == run.attack &&
               each.regions == run.regions && each.processes == run.processes;
      });
      const bool hides = run.attack.starts_with("hide");
      const double bar = hides ? 1.35 : 1.15;
      const double value = hides ? run.report.worst : run.report.mean;
      const std::string met = run.regions < 2 ? ""
                                              : fmt::format("{} ≤ {} {}", hides ? "worst" : "mean",
                                                            bar, value <= bar ? "yes" : "NO");
      out += fmt::format("{:<20}{:>8}{:>11}   {}   {}   {}\n", run.attack, run.regions,
                         run.processes, figures(run),
                         other == runs.end() ? fmt::format("{:>22}", "") : figures(*other), met);
    }
  };
  add(results.attacks);
  add(results.lone);
  return out + "rows: written in a window by all regions.\n";
}

std::string table_of_flood(const sim::FloodReport& report) {
  std::string out =
      "A flood of fresh keys in one of three regions (limits of 10 a minute, budget 500 "
      "rows/s)\n\n";
  out += fmt::format("{:>8}{:>12}{:>10}{:>10}{:>12}{:>18}\n", "second", "fresh keys", "rows",
                     "waiting", "left out", "bound elsewhere");
  uint64_t most = 0;
  for (size_t i = 0; i < report.seconds.size(); ++i) {
    const sim::FloodSecond& second = report.seconds[i];
    most = std::max(most, second.rows);
    if (i % 10 != 0) continue;
    out += fmt::format("{:>8}{:>12}{:>10}{:>10}{:>12}{:>18.2f}\n", i, second.fresh, second.rows,
                       second.waiting, second.left_out, second.bound);
  }
  out += fmt::format("most rows in a second: {}\n", most);
  const auto travel = [](const sim::FleetDelays& delays) {
    return fmt::format("p50 {}, p99 {}, longest {}", seconds_of(sim::quantile(delays.travel, 0.5)),
                       seconds_of(sim::quantile(delays.travel, 0.99)),
                       seconds_of(sim::quantile(delays.travel, 1)));
  };
  out += "rows of 50 keys of another namespace, used everywhere, from sending to use:\n";
  out += fmt::format("  before    {}\n  meanwhile {}\n", travel(report.calm), travel(report.flood));
  const auto age = [](const sim::FleetDelays& delays) {
    return fmt::format("p50 {}, p99 {}", seconds_of(sim::quantile(delays.age, 0.5)),
                       seconds_of(sim::quantile(delays.age, 0.99)));
  };
  out += "age of their admissions when known elsewhere:\n";
  out += fmt::format("  before    {}\n  meanwhile {}\n", age(report.calm), age(report.flood));
  out += fmt::format("their worst window: {:.2f} limits; without what is recent {:.2f}\n",
                     report.worst, report.unexcused);
  return out;
}

std::string lines_on_processor(const sim::TrafficReport& report) {
  return fmt::format(
      "Processor time of run_sharing, every 10 ms, with 24,000 keys in use in a process "
      "({:.0f} requests/s):\n  {:.2f} % of one core (bar: < 1 %: {})\n",
      static_cast<double>(report.admitted + report.refused) / report.seconds / 2,
      100 * report.sharing_share, report.sharing_share < 0.01 ? "yes" : "NO");
}

}  // namespace weir::bench
