#include "command_line/program.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "command_line/exit_codes.h"
#include "weir/version.h"

namespace weir::command_line {
namespace {

// The first sentence of a description on one line, without the full stop.
std::string first_sentence(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  text.erase(std::min(text.find(". "), text.size()));
  text.erase(text.find_last_not_of(" .") + 1);
  return text;
}

// Two columns: names and meanings. Meanings are broken between words at the end of the line.
std::string columns(std::string line, const std::string& meaning, size_t column) {
  constexpr size_t kWidth = 79;
  std::string text;
  for (const std::string& word : CLI::detail::split(meaning, ' ')) {
    if (line.size() >= column && line.size() + 1 + word.size() > kWidth) {
      text += line + "\n";
      line.clear();
    }
    line.resize(std::max(line.size() + 1, column), ' ');
    line += word;
  }
  return text + line + "\n";
}

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(38);
    label("SUBCOMMAND", "COMMAND");
  }

  std::string make_description(const CLI::App* app) const override {
    std::string text = Formatter::make_description(app);
    text.erase(text.find_last_not_of('\n') + 1);
    return text.empty() ? text : text + "\n\n";
  }

  std::string make_subcommand(const CLI::App* command) const override {
    constexpr size_t kCommandColumn = 17;
    return columns("  " + command->get_name(), first_sentence(command->get_description()),
                   kCommandColumn);
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return columns("  " + make_option_name(option, is_positional) + make_option_opts(option),
                   make_option_desc(option), get_column_width());
  }

  std::string make_footer(const CLI::App* app) const override {
    const bool has_commands = !app->get_subcommands([](const CLI::App*) { return true; }).empty();
    if (!has_commands || !app->get_footer().empty()) return Formatter::make_footer(app);
    return fmt::format("Options: {} COMMAND --help\n", app->get_name());
  }
};

}  // namespace

Program::Program(const std::string& name, const std::string& description)
    : name_(name), app_(description, name) {
  app_.formatter(std::make_shared<HelpFormatter>());
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
    const std::string unknown = unknown_command();
    fmt::print(stderr, "{}: {}\nRun '{} --help' for all {}.\n", name_,
               unknown.empty() ? error.what() : unknown, selected_command(),
               unknown.empty() ? "options" : "commands");
    return kUsageError;
  }
  return 0;
}

std::string Program::unknown_command() const {
  const CLI::App* app = &app_;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  const auto commands = app->get_subcommands([](const CLI::App*) { return true; });
  const std::vector<std::string> left = app->remaining();
  if (commands.empty() || left.empty() || left.front().starts_with('-')) return {};
  std::string names;
  for (const CLI::App* each : commands) {
    names += (names.empty() ? "" : ", ") + each->get_name();
  }
  return fmt::format("there is no command '{}'; the commands are {}", left.front(), names);
}

std::string Program::selected_command() const {
  std::string command = name_;
  for (const CLI::App* each : app_.get_subcommands()) command += " " + each->get_name();
  return command;
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
