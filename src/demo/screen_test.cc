#include "demo/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <regex>
#include <sstream>

namespace weir::demo {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr Instant kStart = {.wall = WallTime(Millis(1'000'000'000'000)),
                            .mono = MonoTime(std::chrono::seconds(1))};
constexpr Look kPlain = {.colour = Colour::kNone, .glyphs = Glyphs::kAscii};
constexpr Look kRich = {.colour = Colour::kAnsi, .glyphs = Glyphs::kUnicode};

// Limit 7, ten requests at once: seven admitted, three denied in every row.
DemoBoard board_after_burst() {
  DemoBoard board(kStart, {.limit = 7, .window = Millis(5000), .requests_per_second = 0});
  board.burst(kStart);
  board.step(kStart);
  return board;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Colour codes take no column; a multi-byte character takes one.
int columns_of(const std::string& line) {
  static const std::regex kCodes("\x1b\\[[0-9]*m");
  const std::string shown = std::regex_replace(line, kCodes, "");
  return static_cast<int>(std::ranges::count_if(shown, [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(DemoScreen, FillsADefaultTerminalExactly) {
  const auto lines = lines_of(render(board_after_burst(), kStart.mono, kRich, {}));
  EXPECT_EQ(lines.size(), 24u);
  EXPECT_THAT(lines.back(), HasSubstr("q quit"));
}

TEST(DemoScreen, ShowsNameTotalsRemainingAndRetryOfEachAlgorithm) {
  const DemoBoard board = board_after_burst();
  const std::string screen = render(board, kStart.mono, kPlain, {});
  EXPECT_THAT(screen, HasSubstr("limit 7 per 5 s   paused   10 offered"));
  EXPECT_THAT(screen, HasSubstr(" fixed_window                 7        3   "
                                "-----------------     0        5.0 s\n"));
  for (const DemoRow& row : board.rows()) {
    EXPECT_THAT(screen, HasSubstr(to_string(row.algorithm)));
  }
}

TEST(DemoScreen, ShowsTheNewestOutcomeAtTheRightEdge) {
  const auto lines = lines_of(render(board_after_burst(), kStart.mono, kPlain, {}));
  EXPECT_EQ(lines.at(5), std::string(69, ' ') + "ooooooo...");
}

TEST(DemoScreen, CountsDownToTheRetryAndNeverShowsZero) {
  const DemoBoard board = board_after_burst();
  const auto after = [&](Millis passed) { return render(board, kStart.mono + passed, kPlain, {}); };
  EXPECT_THAT(after(Millis(4900)), HasSubstr("  0.1 s\n"));
  EXPECT_THAT(after(Millis(4999)), HasSubstr("  0.1 s\n"));
  EXPECT_THAT(after(Millis(4999)), Not(HasSubstr("  0.0 s\n")));
  // The strict window counts its oldest part in full, so its retry time is the latest.
  EXPECT_THAT(after(Millis(10000)), Not(HasSubstr(" s\n ")));
}

TEST(DemoScreen, ShowsOneRemainingRequestOfMany) {
  DemoBoard board(kStart, {.limit = 11, .window = Millis(5000), .requests_per_second = 0});
  board.press(kStart, ' ');
  board.step(kStart);
  EXPECT_THAT(render(board, kStart.mono, kPlain, {}), HasSubstr("##---------------     1"));
}

TEST(DemoScreen, WithoutColourHasNoEscapes) {
  const std::string screen = render(board_after_burst(), kStart.mono, kPlain, {});
  EXPECT_EQ(screen.find('\x1b'), screen.npos);
}

TEST(DemoScreen, InAsciiHasOnlyPrintableBytes) {
  const std::string screen = render(board_after_burst(), kStart.mono, kPlain, {});
  EXPECT_TRUE(
      std::ranges::all_of(screen, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

TEST(DemoScreen, ResetsTheColourAtTheEndOfEachLine) {
  for (const std::string& line : lines_of(render(board_after_burst(), kStart.mono, kRich, {}))) {
    const size_t last = line.rfind('\x1b');
    if (last == line.npos) continue;
    EXPECT_EQ(line.substr(last, 4), "\x1b[0m") << line;
  }
}

TEST(DemoScreen, OnASmallTerminalShowsNamesOutcomesAndTotals) {
  const auto lines =
      lines_of(render(board_after_burst(), kStart.mono, kPlain, {.columns = 40, .rows = 10}));
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines.at(2), " sliding_window_strict ooo...    7/3   ");
  EXPECT_THAT(lines.back(), HasSubstr("q quit"));
}

RC_GTEST_PROP(DemoScreen, NeverExceedsTheScreen, ()) {
  const ScreenSize size = {.columns = *rc::gen::inRange(0, 300), .rows = *rc::gen::inRange(0, 60)};
  DemoBoard board(kStart, {.limit = *rc::gen::inRange<Count>(1, 10001),
                           .window = Millis(*rc::gen::inRange(100, 3'600'001)),
                           .requests_per_second = *rc::gen::inRange(0, 1001)});
  for (int i = 0; i < *rc::gen::inRange(0, 40); ++i) board.burst(kStart);
  const auto lines = lines_of(render(board, kStart.mono, *rc::gen::element(kPlain, kRich), size));
  RC_ASSERT(static_cast<int>(lines.size()) <= size.rows);
  for (const std::string& line : lines) RC_ASSERT(columns_of(line) < std::max(size.columns, 1));
}

TEST(DemoScreen, ShowsWholeSecondsWithoutMilliseconds) {
  EXPECT_EQ(duration_text(Millis(5000)), "5 s");
  EXPECT_EQ(duration_text(Millis(1500)), "1500 ms");
  EXPECT_EQ(duration_text(Millis(999)), "999 ms");
}

}  // namespace
}  // namespace weir::demo
