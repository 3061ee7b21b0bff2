// Passwords of stores that are not written into their addresses.

#pragma once

#include <string>

namespace weir::server {

// From the first line of a file, or else from a variable of the environment; empty if there is
// neither. `setting` is what names the file. Throws if the file cannot be used.
[[nodiscard]] std::string password_from(const std::string& setting, const std::string& file,
                                        const char* variable);

}  // namespace weir::server
