#include <CLI/CLI.hpp>

#include "bench/region/region.h"

int main(int argc, char** argv) {
  CLI::App app("weir_region_bench: measurements for ./dev bench region");
  app.require_subcommand(1);

  weir::bench::CommandsPlan acked;
  CLI::App& commands = *app.add_subcommand("commands", "what an embedded limiter says to Redis");
  commands.add_option("--port", acked.port, "of redis-server")->required();
  commands.add_option("--process", acked.process, "of redis-server")->required();
  commands.add_option("--keys", acked.keys)->check(CLI::Range(1, 100'000));
  commands.add_option("--rate", acked.rate, "accepts per key and second; 0: as many as can be")
      ->check(CLI::NonNegativeNumber);
  commands.add_option("--seconds", acked.seconds)->check(CLI::Range(0.1, 30.0));

  weir::bench::LatencyPlan asked;
  CLI::App& latency = *app.add_subcommand("latency", "how long a client of a server waits");
  latency.add_option("--port", asked.port, "the RESP door")->required();
  latency.add_option("--keys", asked.keys)->check(CLI::Range(1, 100'000));
  latency.add_option("--connections", asked.connections)->check(CLI::Range(1, 100));
  latency.add_option("--rate", asked.rate, "requests per second")->check(CLI::Range(1, 100'000));
  latency.add_option("--seconds", asked.seconds)->check(CLI::Range(0.1, 30.0));
  latency.add_option("--warm-seconds", asked.warm_seconds)->check(CLI::Range(0.0, 30.0));

  CLI11_PARSE(app, argc, argv);
  return commands ? weir::bench::measure_commands(acked) : weir::bench::measure_latency(asked);
}
