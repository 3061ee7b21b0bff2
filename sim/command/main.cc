// The command line of `weir sim`. Exit codes: 0 done, 1 failed, 2 asked wrongly, 130 stopped.

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
  std::string world;  // a file
  bool swarming = false;
  bool listing = false;

  void run() const {
    if (!settings.file.empty() + !world.empty() + swarming + listing != 1) {
      throw CLI::ValidationError("asks for a SCENARIO, --swarm, --replay or --list: one of them");
    }
    const int code = listing          ? list_scenarios()
                     : swarming       ? run_swarm(swarm)
                     : !world.empty() ? replay_world(world)
                                      : run_sim(settings);
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

void add_check_option(CLI::App& command, SimSettings& settings) {
  command
      .add_flag("--check", settings.check,
                "Run every checker of a world after each event; slow, for small scenarios")
      ->needs("SCENARIO");
}

void add_swarm_options(CLI::App& command, SimOptions& options) {
  CLI::Option* swarm = command.add_flag("--swarm", options.swarming,
                                        "Run small stormy worlds, one seed after another, until "
                                        "the time is up or an invariant is broken; then look for a "
                                        "smaller one and write it to world-SEED.yaml");
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

void add_replay_option(CLI::App& command, SimOptions& options) {
  command.add_option("--replay", options.world, "Run the world that --swarm wrote there")
      ->option_text("FILE");
}

void add_options(CLI::App& command, SimOptions& options) {
  command.callback([&options] {
    options.swarm.seed = options.settings.seed;
    options.run();
  });
  add_scenario_options(command, options.settings);
  add_check_option(command, options.settings);
  add_swarm_options(command, options);
  add_replay_option(command, options);
  command.add_flag("--list", options.listing, "List the scenarios in ./scenarios");
}

}  // namespace
}  // namespace weir::sim

int main(int argc, char** argv) {
  weir::command_line::Program program(
      "weir sim",
      "Simulate a fleet and plot the results: how exact limits were, what that cost,\n"
      "and whether the scenario kept what it promises\n");
  weir::sim::SimOptions options;
  weir::sim::add_options(program.app(), options);
  return program.run(argc, argv);
}
