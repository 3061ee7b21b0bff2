// The command line of `weir lab`. Exit codes: 0 success, 1 failure, 2 wrong usage.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "command_line/exit_codes.h"
#include "command_line/print_error.h"
#include "command_line/program.h"
#include "lab/decision_cost.h"
#include "lab/questions.h"
#include "lab/report.h"
#include "lab/shapes.h"
#include "lab/tables.h"
#include "lab/trace.h"
#include "platform/terminal.h"

namespace weir::lab {
namespace {

constexpr const char* kDefaultShape = "on-off";
constexpr uint64_t kMaxTraceBytes = uint64_t{1} << 30;
constexpr Count kMaxBurst = 1'000'000;

[[noreturn]] void fail(const std::string& message, int code = command_line::kFailed) {
  command_line::print_error("{}\n", message);
  throw CLI::RuntimeError(code);
}

std::string last_error() {
  return std::strerror(errno);
}

std::string read_whole(const std::string& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) fail(file + ": cannot be read: it is a folder");
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(fmt::format("{}: cannot be read: {}", file, last_error()));
  std::string text;
  std::vector<char> chunk(1 << 20);
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), in.gcount() > 0) {
    text.append(chunk.data(), static_cast<size_t>(in.gcount()));
    if (text.size() > kMaxTraceBytes) {
      fail(fmt::format("{}: is larger than {} bytes; split the file", file, kMaxTraceBytes));
    }
  }
  return text;
}

// "lab-poisson.svg"; characters that are special in a shell or a path are replaced.
std::string plot_name(std::string title) {
  for (char& c : title) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (!plain) c = '_';
  }
  return "lab-" + title + ".svg";
}

std::string check_yes_no(const std::string& text) {
  return text == "yes" || text == "no" ? "" : fmt::format("'{}' is not yes or no", text);
}

// CLI11 would convert "-1" to the largest unsigned number.
std::string check_seed(const std::string& text) {
  const bool digits = text.find_first_not_of("0123456789") == text.npos;
  return digits && text.size() <= 19 ? "" : fmt::format("'{}' is not a whole number", text);
}

std::string shape_names() {
  std::string names;
  for (const Shape& shape : shapes()) {
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  return names;
}

std::string check_shape(const std::string& text) {
  if (find_shape(text) != nullptr) return {};
  return fmt::format("'{}' is not a shape; the shapes are {}", text, shape_names());
}

struct LabOptions {
  std::string shape = kDefaultShape;
  std::string trace;
  std::optional<Count> limit;
  std::optional<int64_t> duration_ms;
  std::optional<Count> burst;
  size_t requests = ShapeSettings{}.requests;
  uint64_t seed = ShapeSettings{}.seed;
  std::string out;
  int64_t plot_windows = 12;
  bool tables = false;
  bool suggest = false;
  std::optional<std::string> bursts;
  std::optional<std::string> strict;
  std::optional<uint64_t> bytes_per_key;
  std::optional<uint64_t> keys;

  void run() const {
    if (tables) return fmt::print("{}", tables_text(errors_by_headroom()));
    if (suggest) return run_suggest();
    run_comparison();
  }

 private:
  void run_suggest() const {
    GivenAnswers given{
        .bytes_per_key = bytes_per_key, .limit = limit, .duration_ms = duration_ms, .keys = keys};
    if (bursts) given.bursts = *bursts == "yes" ? Bursts::kYes : Bursts::kNo;
    if (strict) {
      given.strictness = *strict == "yes" ? Strictness::kNeverExceeds : Strictness::kMayExceed;
    }
    const Source source = platform::terminal_is_interactive() ? Source::kTerminal : Source::kPipe;
    const auto needs = ask_needs(given, source, std::cin, std::cout);
    if (!needs) {
      fail(fmt::format("weir lab: {}: {}", needs.error().detail, needs.error().fix),
           command_line::kUsageError);
    }
    fmt::print("{}", to_text(advise(*needs), *needs));
  }

  void run_comparison() const {
    const Limit applied = limit_of_run();
    const auto [subject, traffic] = make_subject(applied);
    if (!out.empty()) create_folder();
    const Comparison comparison = compare(traffic, applied);
    const std::string text =
        text_report(subject, traffic, comparison, measure_costs(traffic, applied));
    if (out.empty()) {
      fmt::print("{}\nFor a plot, add --out DIR.\n", text);
      return;
    }
    const auto path = std::filesystem::path(out) / plot_name(subject.title);
    write_plot(path.string(), svg_report(subject, traffic, comparison, plot_windows));
    fmt::print("{}\nplot: {}\n", text, path.string());
  }

  // The fastest of three runs: other programs only make a run slower.
  static std::vector<DecisionCost> measure_costs(const Traffic& traffic, const Limit& applied) {
    std::vector<DecisionCost> costs;
    for (const Algorithm algorithm : kAlgorithms) {
      std::optional<double> fastest;
      for (int i = 0; i < 3; ++i) {
        const auto run = run_library(traffic, applied, algorithm);
        if (!run) break;
        fastest = std::min(fastest.value_or(run->nanos_per_decision), run->nanos_per_decision);
      }
      costs.push_back({.algorithm = algorithm});
      if (fastest) costs.back().nanos = fmt::format("{:.0f}", *fastest);
    }
    return costs;
  }

  [[nodiscard]] Limit limit_of_run() const {
    Limit applied;
    applied.limit = limit.value_or(applied.limit);
    if (applied.limit > kMaxLogLimit) {
      throw CLI::ValidationError(
          "--limit",
          fmt::format("Value {} not in range 1 to {}: sliding_log, with which all others "
                      "are compared, accepts no more",
                      applied.limit, kMaxLogLimit));
    }
    if (duration_ms) applied.duration = Millis(*duration_ms);
    applied.burst = burst.value_or(applied.limit);
    return applied;
  }

  [[nodiscard]] std::pair<Subject, Traffic> make_subject(const Limit& applied) const {
    if (!trace.empty()) {
      Trace read = parse_trace(read_whole(trace), trace);
      for (const TraceError& error : read.errors) {
        command_line::print_error("{}\n", to_line(error, trace));
      }
      if (!read.errors.empty()) throw CLI::RuntimeError(command_line::kFailed);
      const Subject subject{.title = std::filesystem::path(trace).stem().string(),
                            .meaning = trace};
      return {subject, std::move(read.traffic)};
    }
    const Shape& chosen = *find_shape(shape);
    const ShapeSettings settings{.limit = applied, .requests = requests, .seed = seed};
    const Subject subject{.title = shape, .meaning = std::string(chosen.meaning)};
    return {subject, make_traffic(chosen, settings)};
  }

  void create_folder() const {
    std::error_code error;
    std::filesystem::create_directories(out, error);
    if (error) fail(fmt::format("{}: cannot be created: {}", out, error.message()));
  }

  static void write_plot(const std::string& path, const std::string& svg) {
    errno = 0;
    std::ofstream file(path, std::ios::binary);
    file << svg;
    file.close();
    if (!file) fail(fmt::format("{}: cannot be written: {}", path, last_error()));
  }
};

void add_traffic_options(CLI::App& command, LabOptions& lab) {
  CLI::Option* shape = command.add_option(
      "--shape", lab.shape, fmt::format("Traffic shape, see below (default: {})", kDefaultShape));
  shape->option_text("NAME")->check(CLI::Validator(check_shape, ""));
  command
      .add_option("--trace", lab.trace,
                  "Read the requests from a CSV file instead: time_ms,key,cost. The cost may be "
                  "left out and is 1 then; a line of column names may come first")
      ->option_text("FILE")
      ->excludes(shape);
  command_line::add_number(
      command, "--limit", lab.limit, "default: 100, with --suggest asked for",
      {.min = 1, .max = static_cast<int64_t>(kMaxAdvisedLimit)},
      fmt::format("Cost admitted per duration, for each key. More than {} only "
                  "with --suggest",
                  kMaxLogLimit));
  command_line::add_number(command, "--duration", lab.duration_ms,
                           "default: 1000, with --suggest asked for",
                           {.min = kMinDuration.count(), .max = kMaxDuration.count()},
                           "Length of the window in milliseconds");
  command_line::add_number(command, "--burst", lab.burst, "default: the limit",
                           {.min = 1, .max = static_cast<int64_t>(kMaxBurst)},
                           "Burst of gcra and token_bucket");
  command_line::add_number(
      command, "--requests", lab.requests, fmt::format("default: {}", lab.requests),
      {.min = 1, .max = static_cast<int64_t>(kMaxRequests)}, "Number of requests of a shape");
  command
      .add_option("--seed", lab.seed,
                  "Seed of the random shapes (default: 1). Equal seeds give equal requests")
      ->option_text("N")
      ->type_name("number")
      ->check(CLI::Validator(check_seed, ""));
}

void add_output_options(CLI::App& command, LabOptions& lab) {
  command
      .add_option("--out", lab.out,
                  "Write a plot, lab-NAME.svg, to this directory (default: no plot)")
      ->option_text("DIR");
  command_line::add_number(command, "--plot-windows", lab.plot_windows,
                           fmt::format("default: {}", lab.plot_windows), {.min = 1, .max = 1000},
                           "Durations that the plot shows, from the first request on");
}

void add_suggest_options(CLI::App& command, LabOptions& lab) {
  CLI::Option* tables = command.add_flag(
      "--tables", lab.tables,
      "Print the figures of a published comparison of limiters beside those of Weir, and all "
      "algorithms on all shapes. Takes a few seconds");
  CLI::Option* suggest = command.add_flag(
      "--suggest", lab.suggest,
      "Suggest an algorithm. Asks for the answers that the options below, --limit and --duration "
      "do not give; from a pipe, one answer per line in the same order");
  // Without this text the help would list what each flag excludes.
  tables->option_text(" ");
  suggest->option_text(" ");
  suggest->excludes(tables);
  for (const char* other : {"--shape", "--trace", "--out"}) {
    suggest->excludes(other);
    tables->excludes(other);
  }
  command.add_option("--bursts", lab.bursts, "Whether bursts are allowed: yes or no")
      ->option_text("ANSWER")
      ->needs(suggest)
      ->check(CLI::Validator(check_yes_no, ""));
  command
      .add_option("--strict", lab.strict,
                  "Whether no window may ever have more than the limit: yes or no")
      ->option_text("ANSWER")
      ->needs(suggest)
      ->check(CLI::Validator(check_yes_no, ""));
  command_line::add_number(command, "--bytes-per-key", lab.bytes_per_key, "default: asked for",
                           {.min = 1, .max = static_cast<int64_t>(kMaxBytesPerKey)},
                           "Memory that a key may take");
  command_line::add_number(command, "--keys", lab.keys, "default: asked for",
                           {.min = 1, .max = static_cast<int64_t>(kMaxAdvisedKeys)},
                           "Keys that are active within a window");
  for (const char* number : {"--bytes-per-key", "--keys"}) {
    command.get_option(number)->needs(suggest);
  }
}

std::string footer() {
  std::string text = "\nShapes; rates are per duration:\n";
  for (const Shape& shape : shapes()) {
    text += fmt::format("  {:<15}{}\n", shape.name, shape.meaning);
  }
  return text + "\ndocs/lab.md explains the results.";
}

}  // namespace
}  // namespace weir::lab

int main(int argc, char** argv) {
  weir::command_line::Program program(
      "weir lab",
      "Compare six algorithms on one traffic: what each admits, its worst window, its\n"
      "error against an exact log, its memory and its time per decision\n");
  weir::lab::LabOptions options;
  CLI::App& app = program.app();
  weir::lab::add_traffic_options(app, options);
  weir::lab::add_output_options(app, options);
  weir::lab::add_suggest_options(app, options);
  app.footer(weir::lab::footer());
  app.callback([&options] { options.run(); });
  return program.run(argc, argv);
}
