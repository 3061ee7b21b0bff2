// The command line of the programs `weir`, `weir-sim`, `weir-demo` and `weir-lab`: help, errors and
// exit codes.

#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace weir::command_line {

// A program with the name that its user types, such as "weir sim", and with --help and --version.
//
// `PROGRAM help COMMAND` is `PROGRAM COMMAND --help`.
//
// The help of a program with commands lists them, one line each: the first sentence of the
// command's description, and then the footer of the app. `PROGRAM COMMAND --help` prints the whole
// description, all options and the footer of the command.
class Program {
 public:
  Program(const std::string& name, const std::string& description);

  [[nodiscard]] CLI::App& app() { return app_; }

  // Parses the arguments, runs the callback of the command, and returns the exit code
  // (exit_codes.h). Prints errors to standard error, with the command that prints the right help.
  [[nodiscard]] int run(int argc, char** argv);

 private:
  [[nodiscard]] int parse(int argc, char** argv);

  // The first word where a command should be; empty: none is there.
  [[nodiscard]] std::string unknown_command() const;
  // The program, with the command if one was given: "weir serve".
  [[nodiscard]] std::string selected_command() const;

  std::string name_;
  CLI::App app_;
};

struct NumberRange {
  int64_t min = 0;
  int64_t max = 0;
};

// Adds an option for a whole number in a range. The help shows `meaning`, then `default_text` and
// the range.
template <typename Number>
void add_number(CLI::App& command, const std::string& name, Number& value,
                const std::string& default_text, NumberRange range, const std::string& meaning) {
  command
      .add_option(
          name, value,
          fmt::format("{} ({}; range: {} to {})", meaning, default_text, range.min, range.max))
      ->option_text("N")
      ->type_name("number")
      ->check(CLI::Range(range.min, range.max).description(""));
}

}  // namespace weir::command_line
