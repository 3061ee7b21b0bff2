// `weir demo`: an interactive comparison of the algorithms.

#pragma once

#include <optional>

#include "demo/board.h"

namespace weir::demo {

// On a terminal, runs live until q, Ctrl-C, a signal or the end of `run_for`. Otherwise prints the
// scripted three seconds.
void run_demo(const DemoSettings& settings, std::optional<std::chrono::seconds> run_for);

}  // namespace weir::demo
