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

// A program's help lists its commands, one line each. A command's help lists its options.
class Help : public CLI::Formatter {
 public:
  Help() {
    column_width(kColumn);
    label("SUBCOMMAND", "COMMAND");
  }

  std::string make_subcommand(const CLI::App* command) const override {
    std::string line = "  " + command->get_name();
    line.resize(kCommandColumn, ' ');
    return line + command->get_description() + "\n";
  }

  // The description in its own column, wrapped between words.
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
  static constexpr size_t kColumn = 38;
  static constexpr size_t kCommandColumn = 17;
  static constexpr size_t kWidth = 80;
};

}  // namespace

Program::Program(const std::string& name, const std::string& description)
    : name_(name), app_(description, name) {
  app_.formatter(std::make_shared<Help>());
  app_.set_help_flag("-h,--help", "Print this help");
  app_.set_version_flag("--version", "weir " WEIR_VERSION, "Print the version");
}

int Program::parse(int argc, char** argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::string help = app_.help();
    help.erase(help.find_last_not_of('\n') + 1);
    fmt::print("{}\n", help);
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    const auto selected = app_.get_subcommands();
    const std::string command = selected.empty() ? name_ : name_ + " " + selected[0]->get_name();
    fmt::print(stderr, "{}: {}\nRun '{} --help' for all options.\n", name_, error.what(), command);
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
