// Prints to the standard error stream. A stream without a reader must not end the program.

#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <utility>

namespace weir::command_line {

template <typename... Values>
void print_error(fmt::format_string<Values...> format, Values&&... values) noexcept {
  try {
    fmt::print(stderr, format, std::forward<Values>(values)...);
  } catch (const std::exception&) {
    // Nobody reads it.
  }
}

}  // namespace weir::command_line
