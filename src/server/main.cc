// The command line of `weir`: its commands and their options. Exit codes: 0 success, 1 failure, 2
// wrong usage.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command_line/exit_codes.h"
#include "command_line/print_error.h"
#include "command_line/program.h"
#include "platform/sibling_program.h"
#include "server/catalog_commands.h"
#include "server/config.h"
#include "server/metrics_markdown.h"
#include "server/origin_check.h"
#include "server/other_regions.h"
#include "server/region.h"
#include "server/serve.h"
#include "weir/version.h"

namespace weir::server {
namespace {

constexpr const char* kCommands = "Commands";

// Flags are the settings of config.h. A flag overrides its environment variable, which overrides
// the file.
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
    const std::string conflict = find_conflict(config);
    if (!conflict.empty()) throw CLI::ValidationError("serve", conflict);
    serve(config, [this] { return reload_config(); });
  }

  // For a running server: logs errors and returns nullopt.
  [[nodiscard]] std::optional<Config> reload_config() const {
    try {
      const Config config = read();
      const std::string conflict = find_conflict(config);
      if (conflict.empty()) return config;
      command_line::print_error("weir: {}\n", conflict);
    } catch (const CLI::RuntimeError&) {
      // Already logged.
    } catch (const std::exception& error) {
      command_line::print_error("weir: {}\n", error.what());
    }
    return std::nullopt;
  }

  [[nodiscard]] Config read() const {
    Config config;
    if (!file.empty()) refuse(file, read_config(file, config));
    config.file = file;
    refuse("environment", read_environment(find_variable, config));
    for (const Setting& setting : settings()) {
      const auto found = flags.find(setting.name);
      if (found == flags.end() || found->second.option->count() == 0) continue;
      const Flag& flag = found->second;
      const std::string error = apply(config, setting, flag.value);
      if (!error.empty()) {
        throw CLI::ValidationError(
            "--" + setting.name,
            setting.secret ? error : fmt::format("is '{}': it {}", flag.value, error));
      }
    }
    return config;
  }

  // Prints all problems of a file and throws, if there are any.
  static void refuse(const std::string& file, const std::vector<ConfigProblem>& problems) {
    if (problems.empty()) return;
    for (const ConfigProblem& problem : problems) {
      const std::string position =
          problem.line == 0 ? file : fmt::format("{}:{}:{}", file, problem.line, problem.column);
      command_line::print_error("{}: {}\n", position, problem.text);
    }
    throw CLI::RuntimeError(command_line::kFailed);
  }
};

// Adds the settings that `fits` accepts as flags: the effect first, then default and range.
template <typename Fits>
void add_settings(CLI::App& command, ServeOptions& options, const Fits& fits) {
  command.add_option("--config", options.file, "Read the settings below from this YAML file")
      ->option_text("FILE");
  for (const Setting& setting : settings()) {
    if (!fits(setting)) continue;
    auto& [value, option] = options.flags[setting.name];
    if (setting.value == "BOOL") {
      option = command.add_flag("--" + setting.name, value, setting.meaning);
    } else {
      const std::string range = setting.range.empty() ? "" : "; range: " + setting.range;
      const std::string text =
          fmt::format("{} (default: {}{})", setting.meaning, setting.initial, range);
      option = command.add_option("--" + setting.name, value, text)->option_text(setting.value);
    }
  }
}

void add_serve(CLI::App& app, ServeOptions& options) {
  CLI::App& command =
      *app.add_subcommand("serve", "Serve HTTP and the Redis protocol until Ctrl-C");
  command.footer(
      "\nThe root key comes from WEIR_ROOT_KEY, or is created at the first start and\n"
      "shown once. Every setting can also come from an environment variable:\n"
      "WEIR_REGION for --region. The sections check and namespaces are in the file\n"
      "only. SIGHUP reloads these sections and the settings on-origin-loss,\n"
      "consistency, log and tls-*; SIGUSR1 reopens the log. A changed file is also\n"
      "read without a signal.");
  command.group(kCommands)->callback([&options] { options.run(); });
  add_settings(command, options, [](const Setting&) { return true; });
}

// The settings that select a ledger.
bool is_of_ledger(const Setting& setting) {
  return setting.name == "ledger" || setting.name == "ledger-password-file" ||
         setting.name == "data";
}

struct MigrateOptions {
  ServeOptions settings;
  bool print = false;
};

void add_migrate(CLI::App& app, MigrateOptions& options) {
  CLI::App& command = *app.add_subcommand("migrate", "Create or update the tables of the ledger");
  command.group(kCommands)->callback([&options] {
    const Config config = options.settings.read();
    if (options.print) return print_schema(config);
    migrate(config);
  });
  command.add_flag("--print", options.print, "Print the SQL instead of running it");
  add_settings(command, options.settings, is_of_ledger);
}

void add_ledger(CLI::App& app, ServeOptions& options) {
  CLI::App& ledger = *app.add_subcommand("ledger", "Maintain the ledger: weir ledger clean");
  ledger.group(kCommands)->require_subcommand(1);
  CLI::App& clean =
      *ledger.add_subcommand("clean", "Delete expired rows and old batches, once, in small steps");
  clean.footer(
      "\nServers do this by themselves unless they run with --ledger-clean off.\n"
      "One process cleans at a time.");
  clean.callback([&options] { clean_ledger(options.read()); });
  add_settings(clean, options, is_of_ledger);
}

struct CheckOptions {
  std::string file;
  bool connect = false;

  void run() const {
    Config config;
    ServeOptions::refuse(file, read_config(file, config));
    ServeOptions::refuse("environment", read_environment(ServeOptions::find_variable, config));
    const std::string conflict = find_conflict(config);
    if (!conflict.empty()) ServeOptions::refuse(file, {{.text = conflict}});
    if (connect) {
      const bool usable = try_origin(config);
      if (!(try_ledger(config) && usable)) throw CLI::RuntimeError(command_line::kFailed);
    }
    fmt::print("{}: valid\n", file);
  }

 private:
  static bool try_origin(const Config& config) {
    if (!config.origin) {
      fmt::print("origin memory: nothing to connect to\n");
      return true;
    }
    const OriginCheck check =
        check_origin(origin_of(config), config.has_ledger() ? config.region_name() : "");
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
      *app.add_subcommand("check-config", "Check a settings file; --connect checks the stores too");
  command.group(kCommands)->callback([&options] { options.run(); });
  command.add_option("FILE", options.file, "Check this YAML file")->required()->option_text(" ");
  command.add_flag("--connect", options.connect,
                   "Also connect to the origin and the ledger, and report their problems");
}

// Commands that are separate programs, so that the server does not contain their code. They parse
// their own options.
constexpr std::string_view kPrograms[] = {"sim", "demo", "lab"};

bool is_program(std::string_view command) {
  return std::ranges::find(kPrograms, command) != std::end(kPrograms);
}

[[noreturn]] void become_program(std::string_view name, const std::vector<std::string>& arguments) {
  const std::string program = fmt::format("weir-{}", name);
  const std::string why = platform::exec_sibling_program(program, arguments);
  command_line::print_error("weir: cannot start {}: {}. run './dev build' to build it\n", program,
                            why);
  std::exit(command_line::kFailed);
}

// For the help only: run() starts these programs before it parses.
void add_program(CLI::App& app, const std::string& name, const std::string& description) {
  app.add_subcommand(name, description)->group(kCommands)->set_help_flag();
}

void add_metrics(CLI::App& app) {
  app.add_subcommand("metrics", "Print the list of all metrics in Markdown")
      ->group(kCommands)
      ->callback([] { fmt::print("{}", metrics_markdown()); });
}

void add_version(CLI::App& app) {
  app.add_subcommand("version", "Print the version")->group(kCommands)->callback([] {
    fmt::print("weir " WEIR_VERSION "\n");
  });
}

int run(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "help") {  // weir help COMMAND
    words.erase(words.begin());
    words.emplace_back("--help");
  }
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
  ServeOptions cleaning;
  add_ledger(app, cleaning);
  CheckOptions checking;
  add_check_config(app, checking);
  std::list<ServeOptions> of_catalog;
  const CatalogCommands catalog_commands(app, kCommands, [&](CLI::App& command) {
    ServeOptions& options = of_catalog.emplace_back();
    add_settings(command, options, is_of_ledger);
    return [&options] { return options.read(); };
  });
  add_program(app, "sim", "Simulate a fleet and plot the results");
  add_program(app, "demo", "Show how the six algorithms decide the same requests");
  add_program(app, "lab", "Compare the six algorithms on one traffic; suggest one");
  add_metrics(app);
  add_version(app);
  // After the commands, which would inherit it.
  app.footer("Start a server: weir serve   Options: weir COMMAND --help");
  app.callback([&app] {
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A command");
  });
  std::vector<char*> arguments{argv[0]};
  for (std::string& word : words) arguments.push_back(word.data());
  return program.run(static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace
}  // namespace weir::server

int main(int argc, char** argv) {
  return weir::server::run(argc, argv);
}
