// `weir demo`: the library at work, for a person to play with.

#pragma once

#include <optional>

#include "demo/board.h"

namespace weir::demo {

// On a terminal: live, until q, Ctrl-C, a signal or the end of `run_for`. Elsewhere:
// prints the scripted three seconds and returns.
void run_demo(const DemoSettings& settings, std::optional<std::chrono::seconds> run_for);

}  // namespace weir::demo
