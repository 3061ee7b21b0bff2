// A terminal taken over for a full-screen program, and given back whatever happens.
//
// A program that dies in raw mode leaves its user without echo and without a cursor.
// So what was there before is put back by the destructor, and by signal handlers where
// no destructor will run. A polite signal (TERM, HUP, INT, QUIT) only asks: the program
// sees it as the end of its keys. A crash restores the terminal and goes on crashing.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weir/time.h"

namespace weir::platform {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

// Whether a person sits there: standard input and output are a terminal that can move
// its cursor.
[[nodiscard]] bool terminal_is_interactive();

// Whether standard error is a terminal that can move its cursor, so that a line on it can be
// replaced by the next.
[[nodiscard]] bool errors_go_to_a_terminal();

// Standard input and output, without echo, lines or Ctrl-C, on the alternate screen.
// One thread at a time, one in the process at a time.
class RawTerminal {
 public:
  RawTerminal();
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  // The keys typed, waiting for one no longer than `at_most`; Ctrl-C is '\x03', and keys
  // that send more than one byte are left out. None once a signal asked to end, or the
  // terminal is gone.
  [[nodiscard]] std::optional<std::string> read_keys(Millis at_most);

  // As it is now; it may change at any time.
  [[nodiscard]] TerminalSize size() const;

  // Replaces the screen by these lines. What the terminal does not take is lost.
  void draw(std::string_view lines);
};

}  // namespace weir::platform
