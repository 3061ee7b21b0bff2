// Another program that was installed in the folder of this one.

#pragma once

#include <string>
#include <vector>

namespace weir::platform {

// Replaces this process by the program `name` with these arguments; standard input, output and the
// process id stay. Returns only if that failed, with the reason: which file, and why.
[[nodiscard]] std::string become_sibling_program(const std::string& name,
                                                 const std::vector<std::string>& arguments);

}  // namespace weir::platform
