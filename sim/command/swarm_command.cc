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
#include "plot/text.h"
#include "sim/command/progress_line.h"
#include "sim/worlds/shrink.h"
#include "sim/worlds/swarm.h"
#include "sim/worlds/world_file.h"
#include "weir/clock.h"

namespace weir::sim {
namespace {

using command_line::kFailed;
using command_line::kInterrupted;
using command_line::kUsageError;
using plot::readable;

constexpr auto kMarkCount = static_cast<size_t>(Coverage::kCount);

struct Tally {
  uint64_t first_seed = 0;
  uint64_t worlds = 0;
  uint64_t events = 0;
  Millis simulated{0};
  uint64_t fingerprint = 0;
  std::map<Coverage, uint64_t> coverage;
  std::map<Coverage, uint64_t> worlds_with;  // worlds that reached it

  void add(const RunReport& report) {
    ++worlds;
    events += report.events;
    simulated += report.lasted;
    fingerprint = (std::rotl(fingerprint, 23) ^ report.fingerprint) * 0x9E3779B97F4A7C15u;
    for (const auto& [mark, times] : report.coverage) {
      if (times == 0) continue;
      coverage[mark] += times;
      ++worlds_with[mark];
    }
  }

  [[nodiscard]] std::string line() const {
    constexpr double kHour = 3'600'000;
    return fmt::format(
        "{} world{}, seeds {} to {}, {:.1f} simulated hours, {} events, coverage {} of {}",
        readable(static_cast<double>(worlds)), worlds == 1 ? "" : "s", first_seed,
        first_seed + std::max<uint64_t>(worlds, 1) - 1,
        static_cast<double>(simulated.count()) / kHour, readable(static_cast<double>(events)),
        coverage.size(), kMarkCount);
  }
};

// How often each state was reached, and in which share of the worlds.
void print_tally(const Tally& tally, double seconds) {
  fmt::print("{:>12}  {:>6}  coverage\n", "count", "worlds");
  for (size_t i = 0; i < kMarkCount; ++i) {
    const auto mark = static_cast<Coverage>(i);
    const auto found = tally.coverage.find(mark);
    const std::string count =
        found == tally.coverage.end() ? "0" : readable(static_cast<double>(found->second));
    const auto reached = tally.worlds_with.find(mark);
    const uint64_t worlds = reached == tally.worlds_with.end() ? 0 : reached->second;
    const uint64_t percent = 100 * worlds / std::max<uint64_t>(tally.worlds, 1);
    fmt::print("{:>12}  {:>4} %  {}\n", count, percent, to_string(mark));
  }
  fmt::print("\n{}\nin {:.1f} s, fingerprint {:016x}\n", tally.line(), seconds, tally.fingerprint);
}

void print_violation(uint64_t seed, const RunReport& report) {
  fmt::print("\nBROKEN with seed {}: {}\nlast events:\n", seed, *report.broken);
  for (const std::string& event : report.last_events) fmt::print("  {}\n", event);
}

// Shrinks the world, for at most half a minute, and writes it to a file.
void write_shrunk(const WorldOptions& options, const RunReport& broken,
                  const platform::StopSignals& signals) {
  constexpr int kMaxRuns = 300;
  constexpr Nanos kMaxTime = std::chrono::seconds(30);
  const Clock& clock = system_clock();
  const MonoTime start = clock.now().mono;
  fmt::print("shrinking the world\n");
  std::fflush(stdout);
  const Shrunk shrunk = shrink(options, broken, kMaxRuns, [&] {
    return signals.stop_requested() || clock.now().mono - start > kMaxTime;
  });
  const std::string file = fmt::format("world-{}.yaml", options.seed);
  const std::string comment =
      fmt::format("{}\nShrunk from seed {} in {} runs. Reproduce with:\nweir sim --replay {}",
                  *shrunk.report.broken, options.seed, shrunk.runs, file);
  std::ofstream out(file);
  out << write_world(shrunk.options, comment);
  out.close();
  fmt::print("\n{}\n{} region{}, at most {} node{} per region, {} tuple{}, broken after {} ms\n",
             *shrunk.report.broken, shrunk.report.regions, shrunk.report.regions == 1 ? "" : "s",
             shrunk.report.nodes, shrunk.report.nodes == 1 ? "" : "s", shrunk.options.tuples,
             shrunk.options.tuples == 1 ? "" : "s", shrunk.report.broken_after.count());
  if (out) {
    fmt::print("Reproduce with: weir sim --replay {}\n", file);
  } else {
    fmt::print("{}: cannot be written\n", file);
  }
}

}  // namespace

int run_swarm(const SwarmSettings& settings) {
  const platform::StopSignals signals;
  const Clock& clock = system_clock();
  const MonoTime start = clock.now().mono;
  const auto elapsed = [&] {
    return std::chrono::duration<double>(clock.now().mono - start).count();
  };
  std::optional<double> minutes = settings.minutes;
  if (!minutes && !settings.worlds) minutes = 1;

  Tally tally;
  // 32 bits: repetitions are unlikely, and the number is short enough to type.
  tally.first_seed = settings.seed.value_or(platform::entropy() >> 32);
  fmt::print("first seed {}\n", tally.first_seed);
  std::fflush(stdout);
  std::optional<RunReport> broken;
  uint64_t seed = tally.first_seed;
  {
    ProgressLine progress;
    for (;; ++seed) {
      if (settings.worlds && tally.worlds >= *settings.worlds) break;
      if (minutes && elapsed() >= *minutes * 60) break;
      if (signals.stop_requested()) break;
      RunReport report = World(world_of(seed)).run();
      tally.add(report);
      if (progress.due()) progress.show(tally.line());
      if (report.broken) {
        broken = std::move(report);
        break;
      }
    }
  }
  print_tally(tally, elapsed());
  if (broken) {
    print_violation(seed, *broken);
    fmt::print("Reproduce with: weir sim --swarm --worlds 1 --seed {}\n", seed);
    write_shrunk(world_of(seed), *broken, signals);
    return kFailed;
  }
  if (signals.stop_requested()) return kInterrupted;
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
    return kUsageError;
  }
  const RunReport report = World(*options).run();
  if (report.broken) print_violation(options->seed, report);
  fmt::print("{} events, fingerprint {:016x}\n", readable(static_cast<double>(report.events)),
             report.fingerprint);
  if (!report.broken) fmt::print("no invariant was broken\n");
  return report.broken ? kFailed : 0;
}

}  // namespace weir::sim
