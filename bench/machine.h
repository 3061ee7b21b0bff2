// The machine that ran the benchmark: results are only comparable on the same machine.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weir::bench {

// Pairs of name and value, in the order to print them.
using Machine = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] Machine describe_machine();
[[nodiscard]] std::string architecture();
[[nodiscard]] double load_average();  // of the last minute

}  // namespace weir::bench
