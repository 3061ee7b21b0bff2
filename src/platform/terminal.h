// Raw mode of the terminal for a full-screen program, restored in every case.
//
// A program that ends in raw mode leaves the terminal without echo and without a cursor. So the
// destructor restores the settings, and signal handlers do where no destructor runs. A termination
// signal (TERM, HUP, INT, QUIT) only ends the input: read_keys() returns none. A crash signal
// restores the terminal and then has its default effect.

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

// Whether standard input and output are a terminal that can move its cursor.
[[nodiscard]] bool terminal_is_interactive();

// Whether standard error is a terminal that can move its cursor, so that a line on it can be
// replaced by the next.
[[nodiscard]] bool stderr_is_terminal();

// Standard input and output, without echo, lines or Ctrl-C, on the alternate screen.
// One thread at a time, one in the process at a time.
class RawTerminal {
 public:
  RawTerminal();
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  // The keys typed; waits for one at most `at_most`. Ctrl-C is '\x03'; keys that send more than one
  // byte are skipped. None after a termination signal, or when the terminal is closed.
  [[nodiscard]] std::optional<std::string> read_keys(Millis at_most);

  // The current size; it may change at any time.
  [[nodiscard]] TerminalSize size() const;

  // Replaces the screen by these lines. Output that the terminal does not accept is lost.
  void draw(std::string_view lines);
};

}  // namespace weir::platform
