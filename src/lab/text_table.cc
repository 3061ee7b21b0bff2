#include "lab/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::lab {

std::string to_text(const TextTable& table) {
  std::vector<size_t> widths;
  for (size_t column = 0; column < table.header.size(); ++column) {
    size_t width = table.header[column].size();
    for (const auto& row : table.rows) width = std::max(width, row[column].size());
    widths.push_back(width);
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string line = fmt::format("{:<{}}", cells[0], widths[0]);
    for (size_t column = 1; column < cells.size(); ++column) {
      line += fmt::format("  {:>{}}", cells[column], widths[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add(table.header);
  for (const auto& row : table.rows) add(row);
  return text;
}

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

}  // namespace weir::lab
