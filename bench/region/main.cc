#include <CLI/CLI.hpp>

#include "bench/region/region.h"

int main(int argc, char** argv) {
  CLI::App app("weir_region_bench: measurements for ./dev bench region");
  app.require_subcommand(1);

  weir::bench::CommandsPlan commands_plan;
  CLI::App& commands =
      *app.add_subcommand("commands", "commands that an embedded limiter sends to Redis");
  commands.add_option("--port", commands_plan.port, "port of redis-server")->required();
  commands.add_option("--process", commands_plan.process, "pid of redis-server")->required();
  commands.add_option("--keys", commands_plan.keys)->check(CLI::Range(1, 100'000));
  commands.add_option("--rate", commands_plan.rate, "admissions per key and second; 0: maximum")
      ->check(CLI::NonNegativeNumber);
  commands.add_option("--seconds", commands_plan.seconds)->check(CLI::Range(0.1, 30.0));

  weir::bench::LatencyPlan latency_plan;
  CLI::App& latency = *app.add_subcommand("latency", "latency that a client of a server sees");
  latency.add_option("--port", latency_plan.port, "port of the RESP listener")->required();
  latency.add_option("--keys", latency_plan.keys)->check(CLI::Range(1, 100'000));
  latency.add_option("--connections", latency_plan.connections)->check(CLI::Range(1, 100));
  latency.add_option("--rate", latency_plan.rate, "requests per second")
      ->check(CLI::Range(1, 100'000));
  latency.add_option("--seconds", latency_plan.seconds)->check(CLI::Range(0.1, 30.0));
  latency.add_option("--warm-seconds", latency_plan.warm_seconds)->check(CLI::Range(0.0, 30.0));

  weir::bench::ExactPlan exact_plan;
  std::string algorithm(to_string(exact_plan.algorithm));
  CLI::App& exact = *app.add_subcommand("exact", "exact decisions of an embedded limiter");
  exact.add_option("--port", exact_plan.port, "port of redis-server")->required();
  exact.add_option("--key", exact_plan.key);
  exact.add_option("--algorithm", algorithm)->check([](const std::string& name) {
    return weir::algorithm_from(name) ? std::string() : "not an algorithm: " + name;
  });
  exact.add_option("--limit", exact_plan.limit, "per minute")->check(CLI::PositiveNumber);
  exact.add_option("--callers", exact_plan.callers)->check(CLI::Range(1, 10'000));
  exact.add_option("--requests", exact_plan.requests)->check(CLI::PositiveNumber);

  CLI11_PARSE(app, argc, argv);
  if (commands) return weir::bench::measure_commands(commands_plan);
  if (latency) return weir::bench::measure_latency(latency_plan);
  exact_plan.algorithm = *weir::algorithm_from(algorithm);
  return weir::bench::measure_exact(exact_plan);
}
