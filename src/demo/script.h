// The demo without a terminal: three scripted seconds in virtual time.

#pragma once

#include <string>

#include "demo/board.h"

namespace weir::demo {

// A table of admissions and denials of each algorithm per half second. Equal settings give equal
// text.
[[nodiscard]] std::string run_script(const DemoSettings& settings);

}  // namespace weir::demo
