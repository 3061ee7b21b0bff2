#include "sim/command/swarm_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <map>
#include <string>

#include "command_line/exit_codes.h"
#include "platform/entropy.h"
#include "platform/stop_signals.h"
#include "sim/command/progress_line.h"
#include "sim/report/figures.h"
#include "sim/swarm.h"
#include "weir/clock.h"

namespace weir::sim {
namespace {

using command_line::kFailed;
using command_line::kStopped;

constexpr auto kMarks = static_cast<size_t>(Mark::kCount);

struct Tally {
  uint64_t first_seed = 0;
  uint64_t worlds = 0;
  uint64_t events = 0;
  uint64_t fingerprint = 0;
  std::map<Mark, uint64_t> marks;

  void add(const RunReport& report) {
    ++worlds;
    events += report.events;
    fingerprint = (std::rotl(fingerprint, 23) ^ report.fingerprint) * 0x9E3779B97F4A7C15u;
    for (const auto& [mark, times] : report.marks) {
      if (times > 0) marks[mark] += times;
    }
  }

  [[nodiscard]] std::string line() const {
    return fmt::format("{} world{}, seeds {} to {}, {} events, {} of {} marks reached",
                       readable(static_cast<double>(worlds)), worlds == 1 ? "" : "s", first_seed,
                       first_seed + std::max<uint64_t>(worlds, 1) - 1,
                       readable(static_cast<double>(events)), marks.size(), kMarks);
  }
};

void print_tally(const Tally& tally, double took_seconds) {
  fmt::print("{:>12}  what a world has been through\n", "how often");
  for (size_t i = 0; i < kMarks; ++i) {
    const auto mark = static_cast<Mark>(i);
    const auto found = tally.marks.find(mark);
    const std::string times =
        found == tally.marks.end() ? "never" : readable(static_cast<double>(found->second));
    fmt::print("{:>12}  {}\n", times, to_string(mark));
  }
  fmt::print("\n{}\nin {:.1f} s, fingerprint {:016x}\n", tally.line(), took_seconds,
             tally.fingerprint);
}

void print_story(uint64_t seed, const RunReport& report) {
  fmt::print("\nBROKEN with seed {}: {}\nwhat led to it:\n", seed, *report.broken);
  for (const std::string& event : report.last_events) fmt::print("  {}\n", event);
  fmt::print("To see it again: weir sim --swarm --worlds 1 --seed {}\n", seed);
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
    return kFailed;
  }
  if (signals.asked()) return kStopped;
  fmt::print("no invariant was broken\n");
  return 0;
}

}  // namespace weir::sim
