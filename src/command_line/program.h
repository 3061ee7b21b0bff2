// What the programs `weir`, `weir-sim` and `weir-demo` share: how they show help, report errors
// and end.

#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace weir::command_line {

// A program named as its user typed it, as in "weir sim", with --help and --version.
class Program {
 public:
  Program(const std::string& name, const std::string& description);

  [[nodiscard]] CLI::App& app() { return app_; }

  // Parses the arguments, which runs what was asked for, and returns the exit code
  // (exit_codes.h). Errors go to standard error with the command that shows the remedy.
  [[nodiscard]] int run(int argc, char** argv);

 private:
  [[nodiscard]] int parse(int argc, char** argv);

  std::string name_;
  CLI::App app_;
};

struct NumberRange {
  int64_t least = 0;
  int64_t most = 0;
};

// An option that takes a whole number; help and errors name the same range.
template <typename Number>
void add_number(CLI::App& command, const std::string& name, Number& value,
                const std::string& otherwise, NumberRange range, const std::string& meaning) {
  command.add_option(name, value, fmt::format("{}, {} to {}", meaning, range.least, range.most))
      ->option_text(fmt::format("N ({})", otherwise))
      ->type_name("number")
      ->check(CLI::Range(range.least, range.most).description(""));
}

}  // namespace weir::command_line
