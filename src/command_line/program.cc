#include "command_line/program.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string_view>

#include "command_line/exit_codes.h"
#include "weir/version.h"

namespace weir::command_line {
namespace {

// Help that shows the options of every command under it.
class WholeHelp : public CLI::Formatter {
 public:
  WholeHelp() {
    column_width(38);
    label("SUBCOMMAND", "COMMAND");
  }

  std::string make_expanded(const CLI::App* command) const override {
    std::string text = fmt::format("  {}\n", command->get_name());
    for (const std::string& line : CLI::detail::split(command->get_description(), '\n')) {
      text += fmt::format("      {}\n", line);
    }
    for (const CLI::Option* option : command->get_options()) {
      if (option == command->get_help_ptr()) continue;
      for (const std::string& line : CLI::detail::split(make_option(option, false), '\n')) {
        if (!line.empty()) text += fmt::format("{}{}\n", kIndent, line);
      }
    }
    return text;
  }

  // The meaning in a column of its own, broken between words where the line would be too long.
  std::string make_option(const CLI::Option* option, bool positional) const override {
    const size_t column = get_column_width();
    std::string line = "  " + make_option_name(option, positional) + make_option_opts(option);
    std::string text;
    for (const std::string& word : CLI::detail::split(make_option_desc(option), ' ')) {
      if (line.size() >= column && line.size() + 1 + word.size() > kWidth) {
        text += line + "\n";
        line.clear();
      }
      line.resize(std::max(line.size() + 1, column), ' ');
      line += word;
    }
    return text + line + "\n";
  }

 private:
  static constexpr std::string_view kIndent = "    ";
  static constexpr size_t kWidth = 80 - kIndent.size();
};

}  // namespace

Program::Program(const std::string& name, const std::string& description)
    : name_(name), app_(description, name) {
  app_.formatter(std::make_shared<WholeHelp>());
  app_.set_help_flag("-h,--help", "Print all commands and options");
  app_.set_version_flag("--version", "weir " WEIR_VERSION, "Print the version");
}

int Program::parse(int argc, char** argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::string help = app_.help("", CLI::AppFormatMode::All);
    help.erase(help.find_last_not_of('\n') + 1);
    fmt::print("{}\n", help);
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{}: {}\nRun '{} --help' for all options.\n", name_, error.what(), name_);
    return kAskedWrongly;
  }
  return 0;
}

int Program::run(int argc, char** argv) try {
  const int code = parse(argc, argv);
  if (std::fflush(stdout) == 0) return code;
  fmt::print(stderr, "{}: cannot write to standard output: {}\n", name_, std::strerror(errno));
  return kFailed;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}: {}\n", name_, error.what());
  return kFailed;
}

}  // namespace weir::command_line
