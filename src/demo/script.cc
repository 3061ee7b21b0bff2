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

// Chosen so that a fixed window ends just as the second burst arrives: there the
// algorithms differ most.
Instant start_for(Millis window) {
  constexpr Millis kAnyTime{1'000'000'000'000};
  const Millis boundary = kAnyTime - kAnyTime % window;
  return {.wall = WallTime(boundary - kBursts.back()), .mono = MonoTime(std::chrono::seconds(1))};
}

Tallies play(DemoBoard& board, Instant start) {
  Tallies tallies{};
  std::array<Tally, kAlgorithmCount> so_far{};
  for (Millis at{0}; at < kEnd; at += kTick) {
    const Instant now = {.wall = start.wall + at, .mono = start.mono + at};
    board.step(now);
    if (std::ranges::find(kBursts, at) != kBursts.end()) board.burst(now);
    if ((at + kTick) % kColumn != Millis(0)) continue;
    for (size_t row = 0; row < tallies.size(); ++row) {
      const Tally sums = {.admitted = board.rows()[row].admitted,
                          .denied = board.rows()[row].denied};
      tallies[row][static_cast<size_t>(at / kColumn)] = {
          .admitted = sums.admitted - so_far[row].admitted,
          .denied = sums.denied - so_far[row].denied};
      so_far[row] = sums;
    }
  }
  return tallies;
}

std::string spell_start(Millis at) {
  return fmt::format("{:>6}.{}", at / std::chrono::seconds(1), at.count() % 1000 / 100);
}

std::string spell_pair(const Tally& tally) {
  return fmt::format("{:>8}", fmt::format("{}/{}", tally.admitted, tally.denied));
}

}  // namespace

std::string play_script(const DemoSettings& settings) {
  const Instant start = start_for(settings.window);
  DemoBoard board(start, settings);
  const Tallies tallies = play(board, start);

  std::string table = fmt::format(
      "The same requests to six algorithms: limit {} per {}, {} requests a second,\n"
      "and {} more at once after 1 s and after 2 s, where a fixed window ends.\n"
      "Admitted/denied in each half second, from:\n\n{:<21}",
      settings.limit, spell(settings.window), settings.requests_per_second, DemoBoard::kBurst,
      "second");
  for (Millis at{0}; at < kEnd; at += kColumn) table += spell_start(at);
  table += "   total\n";
  for (size_t row = 0; row < tallies.size(); ++row) {
    const DemoRow& sums = board.rows()[row];
    table += fmt::format("{:<21}", to_string(sums.algorithm));
    for (const Tally& tally : tallies[row]) table += spell_pair(tally);
    table += spell_pair({.admitted = sums.admitted, .denied = sums.denied}) + "\n";
  }
  return table;
}

}  // namespace weir::demo
