// On what the figures were measured: a figure without its machine is worth little.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weir::bench {

// Lines of "what" and "value", in the order to print them.
using Machine = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] Machine describe_machine();
[[nodiscard]] std::string architecture();
[[nodiscard]] double load_average();  // of the last minute

}  // namespace weir::bench
