// The demo where nobody watches: three scripted seconds, played at once.

#pragma once

#include <string>

#include "demo/board.h"

namespace weir::demo {

// A table of what each algorithm admitted and denied in each half second of virtual
// time. The same settings give the same text.
[[nodiscard]] std::string play_script(const DemoSettings& settings);

}  // namespace weir::demo
