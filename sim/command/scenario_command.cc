#include "sim/command/scenario_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "command_line/exit_codes.h"
#include "sim/command/progress_line.h"
#include "sim/fleet/run.h"
#include "sim/fleet/scenario_file.h"
#include "sim/report/html.h"
#include "sim/report/json.h"
#include "sim/report/summary.h"
#include "weir/clock.h"

namespace weir::sim {
namespace {

using command_line::kFailed;
using command_line::kUsageError;

constexpr const char* kScenarioDirectory = "scenarios";

struct Failure {
  int exit_code = kFailed;
  std::string text;
};

// One scenario to run, and the command that runs it alone.
struct Plan {
  Scenario scenario;
  std::string variant;
  std::string command;
};

std::optional<std::string> read_file(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(in), {}};
  return text;
}

// Quotes a word for the shell if necessary.
std::string quoted(const std::string& word) {
  const auto is_safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./=:,@%+").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_safe)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

ScenarioChange parse_change(const std::string& text) {
  const size_t equals = text.find('=');
  return {.path = text.substr(0, equals), .value = text.substr(equals + 1)};
}

struct PlanRequest {
  std::string file;
  std::vector<std::string> changes;
  std::optional<uint64_t> seed;
};

std::string command_for(const PlanRequest& request, uint64_t seed) {
  std::string command = fmt::format("weir sim {} --seed {}", quoted(request.file), seed);
  for (const std::string& each : request.changes) command += " --set " + quoted(each);
  return command;
}

// Fills `plan`; returns the failure if that is impossible.
std::optional<Failure> make_plan(const PlanRequest& request, Plan& plan) {
  const std::optional<std::string> text = read_file(request.file);
  if (!text) return Failure{kFailed, fmt::format("{}: cannot be read", request.file)};
  std::vector<ScenarioChange> changes;
  for (const std::string& each : request.changes) changes.push_back(parse_change(each));
  Result<Scenario> scenario = read_scenario(*text, request.file, changes);
  if (!scenario) return Failure{kUsageError, scenario.error().detail};
  plan.scenario = std::move(scenario.value());
  if (request.seed) plan.scenario.seed = *request.seed;
  plan.command = command_for(request, plan.scenario.seed);
  return std::nullopt;
}

bool is_file(const std::string& compared) {
  return compared.ends_with(".yaml") || compared.ends_with(".yml");
}

// One plan per seed, or one per compared variant.
std::optional<Failure> make_plans(const SimSettings& settings, std::vector<Plan>& plans) {
  const PlanRequest base{settings.file, settings.changes, settings.seed};
  Plan first;
  if (auto failure = make_plan(base, first)) return failure;
  first.variant = fmt::format("{}", fmt::join(settings.changes, " "));
  plans.push_back(first);
  for (uint64_t i = 1; i < settings.seeds; ++i) {
    Plan& another = plans.emplace_back(first);
    another.scenario.seed += i;
    another.command = command_for(base, another.scenario.seed);
  }
  for (const std::string& compared : settings.compared) {
    PlanRequest other = base;
    other.seed = first.scenario.seed;
    Plan plan;
    if (is_file(compared)) {
      other.file = compared;
    } else {
      other.changes.push_back(compared == "floor" ? "settings.policy=floor" : compared);
    }
    if (auto failure = make_plan(other, plan)) return failure;
    plan.variant =
        is_file(compared) ? std::filesystem::path(compared).stem().string() : other.changes.back();
    plans.push_back(std::move(plan));
  }
  return std::nullopt;
}

std::vector<Results> run_plans(const std::vector<Plan>& plans) {
  std::vector<Results> all;
  ProgressLine progress;
  for (size_t i = 0; i < plans.size(); ++i) {
    const std::string which =
        plans.size() > 1 ? fmt::format("run {} of {}", i + 1, plans.size()) : std::string();
    progress.begin_run();
    const MonoTime start = system_clock().now().mono;
    all.push_back(run_scenario(
        plans[i].scenario,
        {.progress = [&progress, &which](Millis elapsed,
                                         Millis total) { progress.show(which, elapsed, total); },
         .stopwatch = [] { return system_clock().now().mono.time_since_epoch(); }}));
    all.back().variant = plans[i].variant;
    all.back().took_seconds =
        std::chrono::duration<double>(system_clock().now().mono - start).count();
  }
  return all;
}

// The command that reproduces all runs.
std::string full_command(const SimSettings& settings, const Plan& first) {
  std::string command = first.command;
  if (settings.seeds > 1) command += fmt::format(" --seeds {}", settings.seeds);
  for (const std::string& each : settings.compared) command += " --compare " + quoted(each);
  return command;
}

bool write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) {
    fmt::print(stderr, "{}: cannot be written\n", path.string());
    return false;
  }
  fmt::print("wrote {}\n", path.string());
  return true;
}

// Selects the first failed seed of several, or the first seed.
std::vector<Results> select_for_page(const SimSettings& settings, const std::vector<Results>& all) {
  if (settings.seeds == 1) return all;
  const auto failed = std::ranges::find_if(all, [](const Results& each) { return !each.fine(); });
  return {failed == all.end() ? all.front() : *failed};
}

// Called before the runs, so that an unusable directory fails early.
std::optional<Failure> make_directory(const std::string& directory) {
  if (directory.empty()) return std::nullopt;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error) return std::nullopt;
  return Failure{kFailed, fmt::format("{}: cannot be created: {}", directory, error.message())};
}

bool write_out(const SimSettings& settings, const Plan& first, const std::vector<Results>& all) {
  const std::filesystem::path directory = settings.out;
  const std::string name = std::filesystem::path(settings.file).stem().string();
  const std::string page = to_html(select_for_page(settings, all), full_command(settings, first));
  return write_file(directory / (name + ".json"), to_json(all)) &&
         write_file(directory / (name + ".html"), page);
}

// Prints the command that reproduces each failed run; true if a run failed.
bool print_failures(const SimSettings& settings, const std::vector<Plan>& plans,
                    const std::vector<Results>& all) {
  bool failed = false;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool compared = settings.seeds == 1 && i > 0;
    if (compared ? !all[i].broken : all[i].fine()) continue;
    if (!failed) fmt::print("\nFailed. Reproduce with:\n");
    failed = true;
    fmt::print("  {}\n", plans[i].command);
  }
  return failed;
}

int fail(const Failure& failure) {
  fmt::print(stderr, "{}\n", failure.text);
  return failure.exit_code;
}

}  // namespace

int run_sim(const SimSettings& settings) {
  std::vector<Plan> plans;
  if (const auto failure = make_plans(settings, plans)) return fail(*failure);
  if (const auto failure = make_directory(settings.out)) return fail(*failure);
  const std::vector<Results> all = run_plans(plans);
  if (settings.seeds > 1) {
    fmt::print("{}", seeds_summary(all));
  } else if (all.size() > 1) {
    fmt::print("{}", comparison(all));
  } else {
    fmt::print("{}", summary(all.front()));
  }
  const bool failed = print_failures(settings, plans, all);
  const bool written = settings.out.empty() || write_out(settings, plans.front(), all);
  return failed || !written ? kFailed : 0;
}

int list_scenarios() {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator each(kScenarioDirectory, error), end;
       !error && each != end; each.increment(error)) {
    if (is_file(each->path().string())) files.push_back(each->path().string());
  }
  if (error) return fail({kFailed, fmt::format("{}: {}", kScenarioDirectory, error.message())});
  std::ranges::sort(files);
  int code = 0;
  for (const std::string& file : files) {
    Plan plan;
    if (const auto failure = make_plan({file, {}, {}}, plan)) {
      code = fail(*failure);
      continue;
    }
    fmt::print("{}\n", file);
    for (const std::string& line : wrapped(plan.scenario.about, 78)) fmt::print("  {}\n", line);
  }
  return code;
}

}  // namespace weir::sim
