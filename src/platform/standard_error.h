// Where standard error goes: to a file, so that all of a process that writes there writes to it.

#pragma once

#include <string>

namespace weir::platform {

// Opens the file, at its end, in the place of standard error; also again, after somebody has given
// the file another name. An empty path is what standard error was when this was first called.
// Returns what is wrong, and then all is as it was; nothing if it went well. One thread at a time.
[[nodiscard]] std::string send_standard_error_to(const std::string& path);

}  // namespace weir::platform
