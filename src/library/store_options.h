// Checks of the options of stores. Passwords never appear in an error.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weir/error.h"

namespace weir::library {

struct LengthRange {
  size_t least = 0;
  size_t most = 0;
};

enum class Secret : bool { kNo, kYes };

// An error if `value` has too few or too many bytes. The value of a secret is left out.
[[nodiscard]] inline std::optional<Error> check_length(std::string_view field,
                                                       std::string_view value, LengthRange range,
                                                       Secret secret = Secret::kNo) {
  if (value.size() >= range.least && value.size() <= range.most) return std::nullopt;
  constexpr size_t kShown = 64;
  const std::string name(field);
  std::string detail = name + " has " + std::to_string(value.size()) + " bytes";
  if (secret == Secret::kNo && !value.empty()) {
    detail +=
        ": \"" + std::string(value.substr(0, kShown)) + (value.size() > kShown ? "..." : "") + "\"";
  }
  return Error{.field = name,
               .detail = std::move(detail),
               .fix = "choose a " + name + " of " + std::to_string(range.least) + " to " +
                      std::to_string(range.most) + " bytes"};
}

struct NumberRange {
  int64_t low = 0;
  int64_t high = 0;
};

[[nodiscard]] inline std::optional<Error> check_number(std::string_view field, int64_t value,
                                                       NumberRange range) {
  if (value >= range.low && value <= range.high) return std::nullopt;
  const std::string name(field);
  return Error{.field = name,
               .detail = name + " is " + std::to_string(value),
               .fix = "choose a " + name + " from " + std::to_string(range.low) + " to " +
                      std::to_string(range.high)};
}

}  // namespace weir::library
