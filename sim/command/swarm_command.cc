#include "sim/command/swarm_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "command_line/exit_codes.h"
#include "platform/entropy.h"
#include "platform/stop_signals.h"
#include "sim/command/progress_line.h"
#include "sim/report/figures.h"
#include "sim/worlds/shrink.h"
#include "sim/worlds/swarm.h"
#include "sim/worlds/world_file.h"
#include "weir/clock.h"

namespace weir::sim {
namespace {

using command_line::kAskedWrongly;
using command_line::kFailed;
using command_line::kStopped;

constexpr auto kMarks = static_cast<size_t>(Coverage::kCount);

struct Tally {
  uint64_t first_seed = 0;
  uint64_t worlds = 0;
  uint64_t events = 0;
  Millis lasted{0};
  uint64_t fingerprint = 0;
  std::map<Coverage, uint64_t> coverage;

  void add(const RunReport& report) {
    ++worlds;
    events += report.events;
    lasted += report.lasted;
    fingerprint = (std::rotl(fingerprint, 23) ^ report.fingerprint) * 0x9E3779B97F4A7C15u;
    for (const auto& [mark, times] : report.coverage) {
      if (times > 0) coverage[mark] += times;
    }
  }

  [[nodiscard]] std::string line() const {
    constexpr double kHour = 3'600'000;
    return fmt::format(
        "{} world{}, seeds {} to {}, {:.1f} simulated hours, {} events, {} of {} marks reached",
        readable(static_cast<double>(worlds)), worlds == 1 ? "" : "s", first_seed,
        first_seed + std::max<uint64_t>(worlds, 1) - 1, static_cast<double>(lasted.count()) / kHour,
        readable(static_cast<double>(events)), coverage.size(), kMarks);
  }
};

void print_tally(const Tally& tally, double took_seconds) {
  fmt::print("{:>12}  what a world has been through\n", "how often");
  for (size_t i = 0; i < kMarks; ++i) {
    const auto mark = static_cast<Coverage>(i);
    const auto found = tally.coverage.find(mark);
    const std::string times =
        found == tally.coverage.end() ? "never" : readable(static_cast<double>(found->second));
    fmt::print("{:>12}  {}\n", times, to_string(mark));
  }
  fmt::print("\n{}\nin {:.1f} s, fingerprint {:016x}\n", tally.line(), took_seconds,
             tally.fingerprint);
}

void print_story(uint64_t seed, const RunReport& report) {
  fmt::print("\nBROKEN with seed {}: {}\nwhat led to it:\n", seed, *report.broken);
  for (const std::string& event : report.last_events) fmt::print("  {}\n", event);
}

// Makes the world smaller, for half a minute at most, and writes it down.
void keep_smaller(const WorldOptions& options, const RunReport& broken,
                  const platform::StopSignals& signals) {
  constexpr int kMostRuns = 300;
  constexpr Nanos kLongest = std::chrono::seconds(30);
  const Clock& clock = system_clock();
  const MonoTime start = clock.now().mono;
  fmt::print("looking for a smaller world that breaks in the same way\n");
  std::fflush(stdout);
  const Shrunk shrunk = shrink(options, broken, kMostRuns, [&] {
    return signals.asked() || clock.now().mono - start > kLongest;
  });
  const std::string file = fmt::format("world-{}.yaml", options.seed);
  const std::string comment =
      fmt::format("{}\nFrom seed {} of a swarm, in {} runs. To see it again:\nweir sim --replay {}",
                  *shrunk.report.broken, options.seed, shrunk.runs, file);
  std::ofstream out(file);
  out << write_world(shrunk.options, comment);
  out.close();
  fmt::print("\n{}\n{} region{}, at most {} node{} in each, {} tuple{}, broken after {} ms\n",
             *shrunk.report.broken, shrunk.report.regions, shrunk.report.regions == 1 ? "" : "s",
             shrunk.report.nodes, shrunk.report.nodes == 1 ? "" : "s", shrunk.options.tuples,
             shrunk.options.tuples == 1 ? "" : "s", shrunk.report.broken_after.count());
  if (out) {
    fmt::print("To see it again: weir sim --replay {}\n", file);
  } else {
    fmt::print("{} cannot be written\n", file);
  }
}

}  // namespace

int run_swarm(const SwarmSettings& settings) {
  const platform::StopSignals signals;
  const Clock& clock = system_clock();
  const MonoTime start = clock.now().mono;
  const auto passed = [&] {
    return std::chrono::duration<double>(clock.now().mono - start).count();
  };
  std::optional<double> minutes = settings.minutes;
  if (!minutes && !settings.worlds) minutes = 1;

  Tally tally;
  // Half of the bits: long enough never to meet again, short enough to be typed.
  tally.first_seed = settings.seed.value_or(platform::entropy() >> 32);
  fmt::print("worlds from seed {} on\n", tally.first_seed);
  std::fflush(stdout);
  std::optional<RunReport> broken;
  uint64_t seed = tally.first_seed;
  {
    ProgressLine progress;
    for (;; ++seed) {
      if (settings.worlds && tally.worlds >= *settings.worlds) break;
      if (minutes && passed() >= *minutes * 60) break;
      if (signals.asked()) break;
      RunReport report = World(world_of(seed)).run();
      tally.add(report);
      if (progress.due()) progress.show(tally.line());
      if (report.broken) {
        broken = std::move(report);
        break;
      }
    }
  }
  print_tally(tally, passed());
  if (broken) {
    print_story(seed, *broken);
    fmt::print("To see it again: weir sim --swarm --worlds 1 --seed {}\n", seed);
    keep_smaller(world_of(seed), *broken, signals);
    return kFailed;
  }
  if (signals.asked()) return kStopped;
  fmt::print("no invariant was broken\n");
  return 0;
}

int replay_world(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) {
    fmt::print(stderr, "{}: cannot be read\n", file);
    return kFailed;
  }
  const auto options = read_world(text.str());
  if (!options) {
    fmt::print(stderr, "{}: {}\n", file, options.error().detail);
    return kAskedWrongly;
  }
  const RunReport report = World(*options).run();
  if (report.broken) print_story(options->seed, report);
  fmt::print("{} events, fingerprint {:016x}\n", readable(static_cast<double>(report.events)),
             report.fingerprint);
  if (!report.broken) fmt::print("no invariant was broken\n");
  return report.broken ? kFailed : 0;
}

}  // namespace weir::sim
