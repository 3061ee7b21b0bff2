// Percent-decoding of names and passwords in URLs: %40 for '@' and so on.

#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace weir::base {

// None if a '%' is not followed by two hexadecimal digits.
[[nodiscard]] inline std::optional<std::string> percent_decode(std::string_view text) {
  std::string value;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      value += text[i];
      continue;
    }
    unsigned code = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const char* const end = digits.data() + digits.size();
    if (digits.size() != 2 || std::from_chars(digits.data(), end, code, 16).ptr != end) {
      return std::nullopt;
    }
    value += static_cast<char>(code);
    i += 2;
  }
  return value;
}

}  // namespace weir::base
