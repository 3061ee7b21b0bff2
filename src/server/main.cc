// The command line of `weir`: its commands and their options. Exit codes: 0 done, 1 failed, 2 asked
// wrongly.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command_line/exit_codes.h"
#include "command_line/program.h"
#include "platform/sibling_program.h"
#include "server/config.h"
#include "server/origin_check.h"
#include "server/other_regions.h"
#include "server/region.h"
#include "server/serve.h"
#include "weir/version.h"

namespace weir::server {
namespace {

constexpr const char* kCommands = "Commands";

// Flags are the settings of config.h; one given on the command line beats its variable in the
// environment, which beats the file.
struct ServeOptions {
  static const char* find_variable(const std::string& name) { return std::getenv(name.c_str()); }

  struct Flag {
    std::string value;
    const CLI::Option* option = nullptr;
  };
  std::string file;
  std::map<std::string, Flag> flags;

  void run() const {
    const Config config = read();
    const std::string wrong = contradiction(config);
    if (!wrong.empty()) throw CLI::ValidationError("serve", wrong);
    serve(config, [this] { return read_again(); });
  }

  // While a server runs: mistakes are told, and change nothing.
  [[nodiscard]] std::optional<Config> read_again() const {
    try {
      const Config config = read();
      const std::string wrong = contradiction(config);
      if (wrong.empty()) return config;
      fmt::print(stderr, "weir: {}\n", wrong);
    } catch (const CLI::RuntimeError&) {
      // Told already.
    } catch (const std::exception& error) {
      fmt::print(stderr, "weir: {}\n", error.what());
    }
    return std::nullopt;
  }

  [[nodiscard]] Config read() const {
    Config config;
    if (!file.empty()) refuse(file, read_config(file, config));
    refuse("environment", read_environment(find_variable, config));
    for (const Setting& setting : settings()) {
      const auto found = flags.find(setting.name);
      if (found == flags.end() || found->second.option->count() == 0) continue;
      const Flag& flag = found->second;
      const std::string wrong = apply(config, setting, flag.value);
      if (!wrong.empty()) {
        throw CLI::ValidationError(
            "--" + setting.name,
            setting.secret ? wrong : fmt::format("is '{}': it {}", flag.value, wrong));
      }
    }
    return config;
  }

  // Tells all problems of a file and gives up, if there are any.
  static void refuse(const std::string& file, const std::vector<ConfigProblem>& problems) {
    if (problems.empty()) return;
    for (const ConfigProblem& problem : problems) {
      const std::string place =
          problem.line == 0 ? file : fmt::format("{}:{}:{}", file, problem.line, problem.column);
      fmt::print(stderr, "{}: {}\n", place, problem.text);
    }
    throw CLI::RuntimeError(command_line::kFailed);
  }
};

// The settings as flags, as far as `fits` says.
template <typename Fits>
void add_settings(CLI::App& command, ServeOptions& options, const Fits& fits) {
  command.add_option("--config", options.file, "A YAML file with the settings below")
      ->option_text("FILE");
  for (const Setting& setting : settings()) {
    if (!fits(setting)) continue;
    auto& [value, option] = options.flags[setting.name];
    if (setting.value == "BOOL") {
      option = command.add_flag("--" + setting.name, value, setting.meaning);
    } else {
      option = command.add_option("--" + setting.name, value, setting.meaning)
                   ->option_text(fmt::format("{} ({})", setting.value, setting.initial));
    }
  }
}

void add_serve(CLI::App& app, ServeOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "serve",
      "Serve HTTP and the Redis protocol until Ctrl-C. The root key comes from\n"
      "WEIR_ROOT_KEY, or is made at the first start and shown once. Every setting\n"
      "may come from a variable: WEIR_REGION for --region. SIGHUP reloads\n"
      "settings, SIGUSR1 reopens the log");
  command.group(kCommands)->callback([&options] { options.run(); });
  add_settings(command, options, [](const Setting&) { return true; });
}

struct MigrateOptions {
  ServeOptions settings;
  bool print = false;
};

void add_migrate(CLI::App& app, MigrateOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "migrate", "Make the tables of the ledger, or bring them up to date; safe to repeat");
  command.group(kCommands)->callback([&options] {
    const Config config = options.settings.read();
    if (options.print) return print_schema(config);
    migrate(config);
  });
  command.add_flag("--print", options.print, "Only print the SQL that would do it");
  add_settings(command, options.settings, [](const Setting& setting) {
    return setting.name.starts_with("ledger") || setting.name == "data";
  });
}

struct CheckOptions {
  std::string file;
  bool connect = false;

  void run() const {
    Config config;
    ServeOptions::refuse(file, read_config(file, config));
    ServeOptions::refuse("environment", read_environment(ServeOptions::find_variable, config));
    const std::string wrong = contradiction(config);
    if (!wrong.empty()) ServeOptions::refuse(file, {{.text = wrong}});
    if (connect) {
      const bool usable = try_origin(config);
      if (!(try_ledger(config) && usable)) throw CLI::RuntimeError(command_line::kFailed);
    }
    fmt::print("{}: nothing is wrong\n", file);
  }

 private:
  static bool try_origin(const Config& config) {
    if (!config.origin) {
      fmt::print("origin memory: nothing to connect to\n");
      return true;
    }
    const OriginCheck check = check_origin(origin_of(config));
    fmt::print(check.usable ? stdout : stderr, "{}", check.text);
    return check.usable;
  }

  static bool try_ledger(const Config& config) {
    const LedgerCheck check = check_ledger(config);
    fmt::print(check.usable ? stdout : stderr, "{}", check.text);
    return check.usable;
  }
};

void add_check_config(CLI::App& app, CheckOptions& options) {
  CLI::App& command =
      *app.add_subcommand("check-config", "Say what is wrong with a file of settings, and where");
  command.group(kCommands)->callback([&options] { options.run(); });
  command.add_option("FILE", options.file, "The YAML file")->required()->option_text(" ");
  command.add_flag("--connect", options.connect,
                   "Also connect to the origin and the ledger, and say what is wrong with them");
}

// The commands that are programs of their own, so that a server has nothing of them. They parse and
// explain their own options.
constexpr std::string_view kPrograms[] = {"sim", "demo"};

bool is_program(std::string_view command) {
  return std::ranges::find(kPrograms, command) != std::end(kPrograms);
}

[[noreturn]] void become_program(std::string_view name, const std::vector<std::string>& arguments) {
  const std::string program = fmt::format("weir-{}", name);
  const std::string why = platform::exec_sibling_program(program, arguments);
  fmt::print(stderr, "weir: cannot start {}: {}. './dev build' makes it\n", program, why);
  std::exit(command_line::kFailed);
}

// In the help only: who asks for it never comes to the parser.
void add_program(CLI::App& app, const std::string& name, const std::string& description) {
  app.add_subcommand(name, description)->group(kCommands)->set_help_flag();
}

void add_version(CLI::App& app) {
  app.add_subcommand("version", "Print the version")->group(kCommands)->callback([] {
    fmt::print("weir " WEIR_VERSION "\n");
  });
}

int run(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && is_program(words[0])) {
    become_program(words[0], {words.begin() + 1, words.end()});
  }
  const bool help = !words.empty() && (words[0] == "--help" || words[0] == "-h");
  if (help && words.size() == 2 && is_program(words[1])) become_program(words[1], {"--help"});

  command_line::Program program("weir", "Weir, a distributed rate limiter\n");
  CLI::App& app = program.app();
  app.require_subcommand(0, 1);
  ServeOptions serving;
  add_serve(app, serving);
  MigrateOptions migrating;
  add_migrate(app, migrating);
  CheckOptions checking;
  add_check_config(app, checking);
  add_program(app, "sim",
              "Simulate a fleet and plot the results: how exact limits were and what\n"
              "that cost. 'weir sim --help' shows its options");
  add_program(app, "demo",
              "Show six algorithms admitting and denying the same requests.\n"
              "'weir demo --help' shows its options");
  add_version(app);
  app.callback([&app] {
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A command");
  });
  return program.run(argc, argv);
}

}  // namespace
}  // namespace weir::server

int main(int argc, char** argv) {
  return weir::server::run(argc, argv);
}
