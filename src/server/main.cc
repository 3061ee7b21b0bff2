// The command line: what can be asked of the binary, and who answers.
//
// The only file that knows how options are parsed. Exit codes: 0 done, 1 failed, 2 asked
// wrongly.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/config.h"
#include "server/demo.h"
#include "server/exit_codes.h"
#include "server/origin_check.h"
#include "server/other_regions.h"
#include "server/region.h"
#include "server/serve.h"
#include "server/sim_command.h"
#include "server/sim_swarm.h"
#include "weir/version.h"

namespace weir::server {
namespace {

constexpr const char* kCommands = "Commands";

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

struct DemoOptions {
  DemoSettings settings;
  int64_t window_ms = settings.window.count();
  std::optional<int64_t> seconds;

  void run() const {
    DemoSettings all = settings;
    all.window = Millis(window_ms);
    if (seconds) return run_demo(all, std::chrono::seconds(*seconds));
    run_demo(all, std::nullopt);
  }
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

void add_demo(CLI::App& app, DemoOptions& demo) {
  CLI::App& command = *app.add_subcommand(
      "demo",
      "Show six algorithms admitting and denying the same requests: on a terminal\n"
      "live and with keys to play, elsewhere as a table of three scripted seconds");
  command.group(kCommands)->callback([&demo] { demo.run(); });

  DemoSettings& settings = demo.settings;
  add_number(command, "--limit", settings.limit, fmt::format("default {}", settings.limit),
             {.least = 1, .most = DemoSettings::kMaxLimit}, "Requests admitted per window");
  add_number(command, "--window-ms", demo.window_ms, fmt::format("default {}", demo.window_ms),
             {.least = kMinDuration.count(), .most = DemoSettings::kMaxWindow.count()},
             "Length of the window in ms");
  add_number(command, "--rate", settings.requests_per_second,
             fmt::format("default {}", settings.requests_per_second),
             {.least = 0, .most = DemoSettings::kMaxRequestsPerSecond},
             "Requests offered per second");
  add_number(command, "--seconds", demo.seconds, "default none", {.least = 1, .most = 86400},
             "Seconds until the demo ends");
}

// Flags are the settings of config.h; one given on the command line beats the file.
struct ServeOptions {
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
    serve(config);
  }

  [[nodiscard]] Config read() const {
    Config config;
    if (!file.empty()) refuse(file, read_config(file, config));
    for (const Setting& setting : settings()) {
      const auto found = flags.find(setting.name);
      if (found == flags.end() || found->second.option->count() == 0) continue;
      const Flag& flag = found->second;
      const std::string wrong = setting.set(config, flag.value);
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
    throw CLI::RuntimeError(kFailed);
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
      "WEIR_ROOT_KEY, or is made at the first start and shown once");
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
    const std::string wrong = contradiction(config);
    if (!wrong.empty()) ServeOptions::refuse(file, {{.text = wrong}});
    fmt::print("{}: nothing is wrong\n", file);
    if (!connect) return;
    const bool usable = try_origin(config);
    if (!(try_ledger(config) && usable)) throw CLI::RuntimeError(kFailed);
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

struct SimOptions {
  SimSettings settings;
  SwarmSettings swarm;
  bool swarming = false;
  bool listing = false;

  void run() const {
    if (!settings.file.empty() + swarming + listing != 1) {
      throw CLI::ValidationError("sim", "asks for a SCENARIO, --swarm or --list: one of them");
    }
    const int code = listing ? list_scenarios() : swarming ? run_swarm(swarm) : run_sim(settings);
    if (code != 0) throw CLI::RuntimeError(code);
  }
};

std::string wrong_change(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals != text.npos && equals > 0) return {};
  return fmt::format("is '{}': it must be PATH=VALUE, as in settings.policy=floor", text);
}

std::string wrong_comparison(const std::string& text) {
  if (text == "floor" || text.ends_with(".yaml") || text.ends_with(".yml")) return {};
  if (wrong_change(text).empty()) return {};
  return fmt::format("is '{}': it must be PATH=VALUE, another file that ends in .yaml, or floor",
                     text);
}

// Where "-1" would be read as the largest of all.
std::string wrong_count(const std::string& text) {
  const bool digits = text.find_first_not_of("0123456789") == text.npos;
  return digits && text.size() <= 19 ? "" : fmt::format("is '{}': it must be a whole number", text);
}

void add_scenario_options(CLI::App& command, SimSettings& settings) {
  CLI::Option* file = command.add_option("SCENARIO", settings.file, "The scenario, a YAML file");
  file->option_text(" ");
  command
      .add_option("--seed", settings.seed, "What chance is drawn from: the same seed, the same run")
      ->option_text("N (default the scenario's)")
      ->type_name("number")
      ->check(CLI::Validator(wrong_count, ""));
  CLI::Option* seeds = command.add_option("--seeds", settings.seeds,
                                          "Run so many seeds, 1 to 1000, and show the least, the "
                                          "median and the most of each figure");
  seeds->option_text("N (default 1)")->type_name("number")->needs(file);
  seeds->check(CLI::Range(1, 1000).description(""));
  command.add_option("--out", settings.out, "Write all of it there: NAME.json, NAME.html")
      ->option_text("DIR")
      ->needs(file);
  command
      .add_option("--set", settings.changes,
                  "Change the scenario, as in settings.policy=floor; may be repeated")
      ->option_text("PATH=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->needs(file)
      ->check(CLI::Validator(wrong_change, ""));
  command
      .add_option("--compare", settings.compared,
                  "Run it once more so changed, or another file, and show both side by side; may "
                  "be repeated. floor is short for settings.policy=floor")
      ->option_text("PATH=VALUE|FILE|floor")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->needs(file)
      ->excludes(seeds)
      ->check(CLI::Validator(wrong_comparison, ""));
}

void add_swarm_options(CLI::App& command, SimOptions& options) {
  CLI::Option* swarm = command.add_flag("--swarm", options.swarming,
                                        "Run small stormy worlds, one seed after another, until "
                                        "the time is up or an invariant is broken");
  command.add_option("--minutes", options.swarm.minutes, "With --swarm: for so long, 0 to 10000")
      ->option_text("M (default 1)")
      ->type_name("number")
      ->needs(swarm)
      ->check(CLI::Range(0.0, 10'000.0).description(""));
  command.add_option("--worlds", options.swarm.worlds, "With --swarm: at most so many")
      ->option_text("N (default any)")
      ->type_name("number")
      ->needs(swarm)
      ->check(CLI::Validator(wrong_count, ""));
}

void add_sim(CLI::App& app, SimOptions& options) {
  CLI::App& command =
      *app.add_subcommand("sim",
                          "Live a scenario in simulated time and show what it came to: how exact\n"
                          "limits were, what it cost, and whether what it promises was kept");
  command.group(kCommands)->callback([&options] {
    options.swarm.seed = options.settings.seed;
    options.run();
  });
  add_scenario_options(command, options.settings);
  add_swarm_options(command, options);
  command.add_flag("--list", options.listing, "List the scenarios in ./scenarios");
}

void add_version(CLI::App& app) {
  app.set_version_flag("--version", "weir " WEIR_VERSION, "Print the version");
  app.add_subcommand("version", "Print the version")->group(kCommands)->callback([] {
    fmt::print("weir " WEIR_VERSION "\n");
  });
}

int run(int argc, char** argv) {
  CLI::App app("Weir, a distributed rate limiter\n", "weir");
  app.formatter(std::make_shared<WholeHelp>());
  app.set_help_flag("-h,--help", "Print all commands and options");
  app.require_subcommand(0, 1);
  ServeOptions serving;
  add_serve(app, serving);
  MigrateOptions migrating;
  add_migrate(app, migrating);
  CheckOptions checking;
  add_check_config(app, checking);
  SimOptions simulating;
  add_sim(app, simulating);
  DemoOptions demo;
  add_demo(app, demo);
  add_version(app);

  try {
    app.parse(argc, argv);  // and run the command
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A command");
  } catch (const CLI::CallForHelp&) {
    std::string help = app.help("", CLI::AppFormatMode::All);
    help.erase(help.find_last_not_of('\n') + 1);
    fmt::print("{}\n", help);
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "weir: {}\nRun 'weir --help' for all commands and options.\n", error.what());
    return kAskedWrongly;
  }
  return 0;
}

}  // namespace
}  // namespace weir::server

int main(int argc, char** argv) try {
  const int code = weir::server::run(argc, argv);
  if (std::fflush(stdout) == 0) return code;
  fmt::print(stderr, "weir: cannot write to standard output: {}\n", std::strerror(errno));
  return weir::server::kFailed;
} catch (const std::exception& error) {
  fmt::print(stderr, "weir: {}\n", error.what());
  return weir::server::kFailed;
}
