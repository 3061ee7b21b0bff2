// A table for the terminal: the first column is aligned left, the others right.

#pragma once

#include <string>
#include <vector>

namespace weir::lab {

struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows = {};  // each as long as the header
};

// One line for the header and one for each row.
[[nodiscard]] std::string to_text(const TextTable& table);

// 12345 as "12,345".
[[nodiscard]] std::string grouped(uint64_t number);

}  // namespace weir::lab
