// Measures the cost of a decision and prints it beside peers and targets.

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iostream>

#include "bench/arguments.h"
#include "bench/chart.h"
#include "bench/harness.h"
#include "bench/machine.h"
#include "bench/memory_use.h"
#include "bench/report.h"
#include "bench/results.h"
#include "bench/suites.h"

namespace weir::bench {
namespace {

void run_benchmarks(const Arguments& arguments, Results& results) {
  std::vector<std::string> flags = {
      "weir_bench",
      "--benchmark_enable_random_interleaving=true",
      fmt::format("--benchmark_repetitions={}", arguments.repetitions),
      fmt::format("--benchmark_min_time={}", arguments.seconds),
      fmt::format("--benchmark_filter={}", arguments.filter),
      fmt::format("--benchmark_list_tests={}", arguments.list)};
  flags.insert(flags.end(), arguments.others.begin(), arguments.others.end());
  std::vector<char*> pointers;
  for (std::string& flag : flags) pointers.push_back(flag.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());

  add_hot_key();
  add_many_keys();
  add_memory_access();
  add_new_tuples();
  benchmark::RunSpecifiedBenchmarks(&results);
  benchmark::Shutdown();
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream file(path);
  file << content;
  std::cout << (file ? "wrote " : "cannot write ") << path.string() << '\n';
}

void write_results(const Arguments& arguments, const Results& results, const Machine& machine) {
  std::error_code error;
  std::filesystem::create_directories(arguments.out, error);
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d-%H%M", std::gmtime(&now));
  const std::string stem = fmt::format("{}-{}", date, architecture());
  write_file(arguments.out / (stem + ".json"), to_json(results, machine, arguments));
  const std::string svg = chart(results, machine);
  if (!svg.empty()) write_file(arguments.out / (stem + ".svg"), svg);
}

int run(const Arguments& arguments) {
  const Machine machine = describe_machine();
  Results results;
  if (!arguments.list) {
    for (const auto& [name, value] : machine) std::cout << fmt::format("{:<18} {}\n", name, value);
    std::cout << fmt::format("\n{} repetitions of at least {} s each, in random order.\n\n",
                             arguments.repetitions, arguments.seconds);
    if (load_average() > 0.5)
      std::cout << "The machine is busy: times may be too high, above all with two threads.\n\n";
    std::cout << std::flush;
    // First, while this process has one thread and little memory.
    if (is_chosen("memory", arguments)) results.set_memory(measure_memory());
  }
  run_benchmarks(arguments, results);
  if (arguments.list) return 0;
  if (results.all().empty() && !results.memory() && results.errors().empty()) return 2;
  if (isatty(STDERR_FILENO)) std::cerr << '\n';
  std::cout << report(results) << '\n';
  write_results(arguments, results, machine);
  for (const std::string& error : results.errors()) std::cerr << "failed: " << error << '\n';
  return results.errors().empty() ? 0 : 1;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  const auto arguments = weir::bench::parse(argc, argv);
  if (arguments.help) {
    std::cout << weir::bench::usage();
    return 0;
  }
  if (!arguments.error.empty()) {
    std::cerr << arguments.error << "; see --help\n";
    return 2;
  }
  return weir::bench::run(arguments);
}
