#include "demo/demo.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "demo/screen.h"
#include "demo/script.h"
#include "platform/terminal.h"

namespace weir::demo {
namespace {

constexpr Millis kFrame{50};
constexpr std::string_view kQuit = "qQ\x03\x04";  // the last two are Ctrl-C and Ctrl-D

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// ASCII only if the locale names another character set. Many machines with a modern terminal set no
// locale.
Glyphs glyphs_from_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = environment(name);
    if (locale.empty()) continue;
    for (const std::string_view charset : {"UTF-8", "utf-8", "UTF8", "utf8"}) {
      if (locale.find(charset) != locale.npos) return Glyphs::kUnicode;
    }
    return Glyphs::kAscii;
  }
  return Glyphs::kUnicode;
}

Look look_from_environment() {
  return {.colour = environment("NO_COLOR").empty() ? Colour::kAnsi : Colour::kNone,
          .glyphs = glyphs_from_locale()};
}

DemoBoard run_live(const DemoSettings& settings, std::optional<std::chrono::seconds> run_for) {
  const Clock& clock = system_clock();
  const Look look = look_from_environment();
  platform::RawTerminal terminal;
  const Instant start = clock.now();
  DemoBoard board(start, settings);
  for (;;) {
    const Instant drawn = clock.now();
    if (run_for && drawn.mono - start.mono >= *run_for) return board;
    board.step(drawn);
    const auto [columns, rows] = terminal.size();
    terminal.draw(render(board, drawn.mono, look, {.columns = columns, .rows = rows}));

    const auto keys = terminal.read_keys(kFrame);
    if (!keys || keys->find_first_of(kQuit) != keys->npos) return board;
    const Instant pressed = clock.now();
    for (const char key : *keys) board.press(pressed, key);
  }
}

}  // namespace

void run_demo(const DemoSettings& settings, std::optional<std::chrono::seconds> run_for) {
  if (!platform::terminal_is_interactive()) {
    fmt::print("{}", run_script(settings));
    return;
  }
  fmt::print("{}", totals(run_live(settings, run_for)));
}

}  // namespace weir::demo
