// Commands as clients send them.

#pragma once

#include <string>
#include <vector>

namespace weir::frontends {

using Words = std::vector<std::string>;

inline std::string encoded(const Words& words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return text;
}

}  // namespace weir::frontends
