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

  CLI11_PARSE(app, argc, argv);
  return commands ? weir::bench::measure_commands(commands_plan)
                  : weir::bench::measure_latency(latency_plan);
}
