#include "demo/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "demo/screen.h"

namespace weir::demo {
namespace {

constexpr Millis kTick{1};
constexpr Millis kColumn{500};
constexpr Millis kEnd{3000};
constexpr std::array kBursts = {Millis(1000), Millis(2000)};
constexpr auto kColumns = static_cast<size_t>(kEnd / kColumn);

struct Tally {
  uint64_t admitted = 0;
  uint64_t denied = 0;
};
using Tallies = std::array<std::array<Tally, kColumns>, kAlgorithmCount>;

// A fixed window ends when the second burst arrives: this shows the largest differences.
Instant start_for(Millis window) {
  constexpr Millis kEpochOffset{1'000'000'000'000};
  const Millis boundary = kEpochOffset - kEpochOffset % window;
  return {.wall = WallTime(boundary - kBursts.back()), .mono = MonoTime(std::chrono::seconds(1))};
}

Tallies run(DemoBoard& board, Instant start) {
  Tallies tallies{};
  std::array<Tally, kAlgorithmCount> previous{};
  for (Millis at{0}; at < kEnd; at += kTick) {
    const Instant now = {.wall = start.wall + at, .mono = start.mono + at};
    board.step(now);
    if (std::ranges::find(kBursts, at) != kBursts.end()) board.burst(now);
    if ((at + kTick) % kColumn != Millis(0)) continue;
    for (size_t row = 0; row < tallies.size(); ++row) {
      const Tally sums = {.admitted = board.rows()[row].admitted,
                          .denied = board.rows()[row].denied};
      tallies[row][static_cast<size_t>(at / kColumn)] = {
          .admitted = sums.admitted - previous[row].admitted,
          .denied = sums.denied - previous[row].denied};
      previous[row] = sums;
    }
  }
  return tallies;
}

std::string start_text(Millis at) {
  return fmt::format("{:>6}.{}", at / std::chrono::seconds(1), at.count() % 1000 / 100);
}

std::string pair_text(const Tally& tally) {
  return fmt::format("{:>8}", fmt::format("{}/{}", tally.admitted, tally.denied));
}

}  // namespace

std::string run_script(const DemoSettings& settings) {
  const Instant start = start_for(settings.window);
  DemoBoard board(start, settings);
  const Tallies tallies = run(board, start);

  std::string table = fmt::format(
      "Six algorithms, same requests: limit {} per {}, {} requests per second,\n"
      "and bursts of {} after 1 s and after 2 s, at the end of a fixed window.\n"
      "Admitted/denied per half second, from second:\n\n{:<21}",
      settings.limit, duration_text(settings.window), settings.requests_per_second,
      DemoBoard::kBurst, "algorithm");
  for (Millis at{0}; at < kEnd; at += kColumn) table += start_text(at);
  table += "   total\n";
  for (size_t row = 0; row < tallies.size(); ++row) {
    const DemoRow& sums = board.rows()[row];
    table += fmt::format("{:<21}", to_string(sums.algorithm));
    for (const Tally& tally : tallies[row]) table += pair_text(tally);
    table += pair_text({.admitted = sums.admitted, .denied = sums.denied}) + "\n";
  }
  return table;
}

}  // namespace weir::demo
