// Parsing of command arguments: names, whole numbers, algorithms, and the errors about them.

#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "frontends/limit_names.h"
#include "frontends/range.h"
#include "frontends/resp/limit_commands.h"

namespace weir::frontends {

inline std::string quoted(std::string_view value) {
  constexpr size_t kMax = 40;
  std::string text = "'";
  for (const char c : value.substr(0, kMax)) text += c >= ' ' && c < 127 ? c : '?';
  return text + (value.size() > kMax ? "...'" : "'");
}

// Whether the whole text is a number in the range.
inline bool is_number(std::string_view text, Range range, int64_t& value) {
  constexpr size_t kNoOverflow = 18;  // digits
  if (text.size() - 1 < kNoOverflow) [[likely]] {
    uint64_t number = 0;
    size_t i = 0;
    for (; i < text.size(); ++i) {
      const auto digit = static_cast<uint64_t>(static_cast<unsigned char>(text[i])) - '0';
      if (digit > 9) break;
      number = number * 10 + digit;
    }
    if (i == text.size()) [[likely]] {
      value = static_cast<int64_t>(number);
      return range.holds(value);
    }
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && range.holds(value);
}

inline bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes;
}

// Parses a number in the range; the error names the argument, its value and the range.
inline RespError read_number(std::string_view name, std::string_view text, Range range,
                             int64_t& value) {
  if (is_number(text, range, value)) return {};
  return "ERR " + std::string(name) + " is " + quoted(text) + ": it must be " + range.text();
}

// The same for an amount of cost; the range has no negative numbers.
inline RespError read_count(std::string_view name, std::string_view text, Range range,
                            Count& count) {
  int64_t value = 0;
  RespError error = read_number(name, text, range, value);
  if (error.empty()) count = static_cast<Count>(value);
  return error;
}

inline RespError read_name(std::string_view name, std::string_view text) {
  if (is_name(text)) return {};
  return "ERR " + std::string(name) + " has " + std::to_string(text.size()) +
         " bytes: it must have 1 to " + std::to_string(kMaxNameBytes);
}

inline RespError read_algorithm(std::string_view text, Request& request) {
  const auto algorithm = algorithm_from(text);
  if (!algorithm) {
    return "ERR ALGORITHM is " + quoted(text) + ": it must be " + std::string(kAlgorithmNames);
  }
  request.algorithm = *algorithm;
  return {};
}

}  // namespace weir::frontends
