// Executes another program of the same directory.

#pragma once

#include <string>
#include <vector>

namespace weir::platform {

// Replaces this process by the program `name` in the directory of this one (execv). Returns only on
// failure, with the file and the reason.
[[nodiscard]] std::string exec_sibling_program(const std::string& name,
                                               const std::vector<std::string>& arguments);

}  // namespace weir::platform
