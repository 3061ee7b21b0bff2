#include "bench/command_line.h"

#include <algorithm>
#include <iostream>
#include <utility>

namespace weir::bench {

void CommandLine::add(std::string_view name, bool required,
                      std::function<bool(std::string_view)> set) {
  options_.push_back({.name = name, .required = required, .set = std::move(set)});
}

void CommandLine::text(std::string_view name, std::string& value) {
  add(name, false, [&value](std::string_view word) {
    value = word;
    return true;
  });
}

void CommandLine::flag(std::string_view name, bool& value) {
  add(name, false, [&value](std::string_view) { return value = true; });
  options_.back().has_value = false;
}

bool CommandLine::fail(std::string_view problem, std::string_view word) const {
  std::cerr << program_ << ": " << problem << ' ' << word << "; options:";
  for (const Option& option : options_) std::cerr << ' ' << option.name;
  std::cerr << '\n';
  return false;
}

bool CommandLine::parse(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto option = std::ranges::find(options_, word, &Option::name);
    if (option == options_.end()) {
      if (words_ == nullptr || word.starts_with("--")) return fail("unknown option", word);
      words_->assign(argv + i, argv + argc);
      break;
    }
    option->required = false;
    if (option->has_value && ++i == argc) return fail("no value for", word);
    if (!option->set(argv[i])) return fail("invalid value for", word);
  }
  const auto missing = std::ranges::find_if(options_, &Option::required);
  if (missing != options_.end()) return fail("missing", missing->name);
  if (words_ != nullptr && words_->empty()) return fail("missing", "command");
  return true;
}

}  // namespace weir::bench
