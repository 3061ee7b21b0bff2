// The demo board as text, sized to the terminal.
//
// Pure: the same board, moment and look give the same lines. Lines carry colour codes
// and no other control characters, and are never longer than the width.

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

// At most size.rows lines, joined by newlines. Where the screen is small, the blank
// lines go first, then all but names, outcomes and totals.
[[nodiscard]] std::string render(const DemoBoard& board, MonoTime now, Look look, ScreenSize size);

// The totals as plain lines, for when the screen is gone.
[[nodiscard]] std::string totals(const DemoBoard& board);

// "5 s", "1500 ms".
[[nodiscard]] std::string spell(Millis span);

}  // namespace weir::demo
