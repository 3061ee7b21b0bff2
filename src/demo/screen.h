// Renders the board as text in the size of the terminal.
//
// Pure: equal boards, times and looks give equal lines. Lines contain colour codes and no other
// control characters, and are never longer than the width.

#pragma once

#include <string>

#include "demo/board.h"
#include "demo/styled_line.h"

namespace weir::demo {

enum class Glyphs : uint8_t { kAscii, kUnicode };

struct Look {
  Colour colour = Colour::kNone;
  Glyphs glyphs = Glyphs::kAscii;
};

struct ScreenSize {
  int columns = 80;
  int rows = 24;
};

// At most size.rows lines, joined by newlines. A small screen loses the blank lines first, then
// everything but names, outcomes and totals.
[[nodiscard]] std::string render(const DemoBoard& board, MonoTime now, Look look, ScreenSize size);

// The totals as plain lines, for the end of the demo.
[[nodiscard]] std::string totals(const DemoBoard& board);

// "5 s", "1500 ms".
[[nodiscard]] std::string duration_text(Millis duration);

}  // namespace weir::demo
