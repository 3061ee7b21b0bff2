// Redirects standard error to a file, for all code of the process that writes to it.

#pragma once

#include <string>

namespace weir::platform {

// Opens the file for appending and replaces standard error by it; call it again to reopen the file
// after log rotation. An empty path restores the standard error of the first call. Returns an error
// message, and then changes nothing; an empty string on success. One thread at a time.
[[nodiscard]] std::string redirect_stderr(const std::string& path);

}  // namespace weir::platform
