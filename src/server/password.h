// Passwords of stores that are not part of their URLs.

#pragma once

#include <string>

namespace weir::server {

// From the first line of a file, or from an environment variable; empty if there is neither.
// `setting` is the setting that names the file. Throws if the file is not usable.
[[nodiscard]] std::string password_from(const std::string& setting, const std::string& file,
                                        const char* variable);

}  // namespace weir::server
