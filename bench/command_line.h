// The command line of a program that a script of ./dev bench starts.
//
// Words are `--name value`, `--name` for a flag, and then the words that are no option. CLI11 would
// take 13 s to compile in each of these programs, and no person types their command lines.

#pragma once

#include <charconv>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::bench {

class CommandLine {
 public:
  explicit CommandLine(std::string program) : program_(std::move(program)) {}

  // A number in a range. It must be given if the value it has is not in the range.
  template <typename Number>
  void number(std::string_view name, Number& value, Number least, Number most) {
    const bool required = value < least || value > most;
    add(name, required, [&value, least, most](std::string_view word) {
      const char* const end = word.data() + word.size();
      const auto [read, error] = std::from_chars(word.data(), end, value);
      return error == std::errc() && read == end && value >= least && value <= most;
    });
  }
  void text(std::string_view name, std::string& value);
  void flag(std::string_view name, bool& value);
  // One or more words, from the first that is not an option.
  void words(std::vector<std::string>& value) { words_ = &value; }

  // Prints an error and returns false unless all words are known and valid, and all that must be
  // given are.
  [[nodiscard]] bool parse(int argc, char** argv);

 private:
  struct Option {
    std::string_view name;
    bool required = false;
    bool has_value = true;
    std::function<bool(std::string_view)> set;  // false: not valid
  };

  void add(std::string_view name, bool required, std::function<bool(std::string_view)> set);
  [[nodiscard]] bool fail(std::string_view problem, std::string_view word) const;

  std::string program_;
  std::vector<Option> options_;
  std::vector<std::string>* words_ = nullptr;
};

}  // namespace weir::bench
