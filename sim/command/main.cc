// The command line of `weir sim`. Exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "command_line/program.h"
#include "sim/command/scenario_command.h"
#include "sim/command/swarm_command.h"

namespace weir::sim {
namespace {

struct SimOptions {
  SimSettings settings;
  SwarmSettings swarm;
  std::string world_file;
  bool swarm_mode = false;
  bool list = false;

  void run() const {
    if (!settings.file.empty() + !world_file.empty() + swarm_mode + list != 1) {
      throw CLI::ValidationError("give exactly one of SCENARIO, --swarm, --replay and --list");
    }
    const int code = list                  ? list_scenarios()
                     : swarm_mode          ? run_swarm(swarm)
                     : !world_file.empty() ? replay_world(world_file)
                                           : run_sim(settings);
    if (code != 0) throw CLI::RuntimeError(code);
  }
};

// Validators return an error text, or nothing.

std::string check_change(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals != text.npos && equals > 0) return {};
  return fmt::format("'{}' is not PATH=VALUE, such as settings.policy=floor", text);
}

std::string check_comparison(const std::string& text) {
  if (text == "floor" || text.ends_with(".yaml") || text.ends_with(".yml")) return {};
  if (check_change(text).empty()) return {};
  return fmt::format("'{}' is not PATH=VALUE, a file name ending in .yaml, or floor", text);
}

// CLI11 would convert "-1" to the largest unsigned number.
std::string check_count(const std::string& text) {
  const bool digits = text.find_first_not_of("0123456789") == text.npos;
  return digits && text.size() <= 19 ? "" : fmt::format("'{}' is not a whole number", text);
}

void add_scenario_options(CLI::App& command, SimSettings& settings) {
  CLI::Option* file = command.add_option("SCENARIO", settings.file, "Scenario to run, a YAML file");
  file->option_text(" ");
  command
      .add_option(
          "--seed", settings.seed,
          "Seed of the random numbers (default: the scenario's). Equal seeds give equal runs")
      ->option_text("N")
      ->type_name("number")
      ->check(CLI::Validator(check_count, ""));
  CLI::Option* seeds = command.add_option(
      "--seeds", settings.seeds,
      "Number of seeds to run (default: 1; range: 1 to 1000). Prints minimum, median "
      "and maximum of each figure");
  seeds->option_text("N")->type_name("number")->needs(file);
  seeds->check(CLI::Range(1, 1000).description(""));
  command.add_option("--out", settings.out, "Directory for the results: NAME.json and NAME.html")
      ->option_text("DIR")
      ->needs(file);
  command
      .add_option("--set", settings.changes,
                  "Override a key of the scenario, such as settings.policy=floor; repeatable")
      ->option_text("PATH=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->needs(file)
      ->check(CLI::Validator(check_change, ""));
  command
      .add_option("--compare", settings.compared,
                  "Run a variant as well and print both side by side: one changed key, another "
                  "scenario file, or floor, short for settings.policy=floor; repeatable")
      ->option_text("PATH=VALUE|FILE|floor")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->needs(file)
      ->excludes(seeds)
      ->check(CLI::Validator(check_comparison, ""));
}

void add_swarm_options(CLI::App& command, SimOptions& options) {
  CLI::Option* swarm = command.add_flag("--swarm", options.swarm_mode,
                                        "Test small random worlds with many faults, one seed "
                                        "after another, until the time is over or an invariant "
                                        "breaks; shrinks a failing world to world-SEED.yaml");
  command
      .add_option("--minutes", options.swarm.minutes,
                  "Stop --swarm after this many minutes (default: 1; range: 0 to 10000)")
      ->option_text("M")
      ->type_name("number")
      ->needs(swarm)
      ->check(CLI::Range(0.0, 10'000.0).description(""));
  command
      .add_option("--worlds", options.swarm.worlds,
                  "Stop --swarm after this many worlds (default: no limit)")
      ->option_text("N")
      ->type_name("number")
      ->needs(swarm)
      ->check(CLI::Validator(check_count, ""));
}

void add_replay_option(CLI::App& command, SimOptions& options) {
  command.add_option("--replay", options.world_file, "Run a world file that --swarm wrote")
      ->option_text("FILE");
}

void add_options(CLI::App& command, SimOptions& options) {
  command.callback([&options] {
    options.swarm.seed = options.settings.seed;
    options.run();
  });
  add_scenario_options(command, options.settings);
  add_swarm_options(command, options);
  add_replay_option(command, options);
  command.add_flag("--list", options.list, "List the scenarios in ./scenarios");
}

}  // namespace
}  // namespace weir::sim

int main(int argc, char** argv) {
  weir::command_line::Program program(
      "weir sim",
      "Simulate a fleet and plot the results: how exactly limits were enforced, the\n"
      "cost, and whether the expectations of the scenario were met\n");
  weir::sim::SimOptions options;
  weir::sim::add_options(program.app(), options);
  return program.run(argc, argv);
}
