#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "bench/command_line.h"
#include "bench/region/region.h"

namespace weir::bench {
namespace {

int commands(int argc, char** argv) {
  CommandsPlan plan;
  CommandLine options("weir_region_bench commands");
  options.number<uint16_t>("--port", plan.port, 1, 65'535);
  options.number<int>("--process", plan.process, 1, 1 << 30);
  options.number<size_t>("--keys", plan.keys, 1, 100'000);
  options.number<double>("--rate", plan.rate, 0, 1e9);
  options.number<double>("--seconds", plan.seconds, 0.1, 30);
  options.flag("--smoke", plan.smoke);
  return options.parse(argc, argv) ? measure_commands(plan) : 2;
}

int latency(int argc, char** argv) {
  LatencyPlan plan;
  CommandLine options("weir_region_bench latency");
  options.number<uint16_t>("--port", plan.port, 1, 65'535);
  options.number<size_t>("--keys", plan.keys, 1, 100'000);
  options.number<size_t>("--connections", plan.connections, 1, 100);
  options.number<double>("--rate", plan.rate, 1, 100'000);
  options.number<double>("--seconds", plan.seconds, 0.1, 30);
  options.number<double>("--warm-seconds", plan.warm_seconds, 0, 30);
  return options.parse(argc, argv) ? measure_latency(plan) : 2;
}

int exact(int argc, char** argv) {
  ExactPlan plan;
  std::string algorithm(to_string(plan.algorithm));
  CommandLine options("weir_region_bench exact");
  options.number<uint16_t>("--port", plan.port, 1, 65'535);
  options.text("--key", plan.key);
  options.text("--algorithm", algorithm);
  options.number<Count>("--limit", plan.limit, 1, kMaxLimit);
  options.number<size_t>("--callers", plan.callers, 1, 10'000);
  options.number<uint64_t>("--requests", plan.requests, 1, 1'000'000'000);
  if (!options.parse(argc, argv)) return 2;
  const auto known = algorithm_from(algorithm);
  if (!known) {
    fmt::print(stderr, "weir_region_bench: no algorithm {}\n", algorithm);
    return 2;
  }
  plan.algorithm = *known;
  return measure_exact(plan);
}

int run(int argc, char** argv) {
  const std::string_view figure = argc > 1 ? argv[1] : "";
  if (figure == "commands") return commands(argc - 1, argv + 1);
  if (figure == "latency") return latency(argc - 1, argv + 1);
  if (figure == "exact") return exact(argc - 1, argv + 1);
  fmt::print(stderr, "weir_region_bench: the first word is commands, latency or exact\n");
  return 2;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  return weir::bench::run(argc, argv);
}
