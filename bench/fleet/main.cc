#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "bench/fleet/fleet.h"

namespace {

void keep(const std::filesystem::path& path, const std::string& content) {
  std::ofstream file(path);
  file << content;
  fmt::print("{}{}\n", file ? "kept " : "could not write ", path.string());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "fleet_bench: what sharing limits between regions costs and how exact it is, simulated.\n"
      "Explained in docs/performance.md.");
  weir::bench::FleetPlan plan;
  std::filesystem::path out;
  app.add_flag("--quick", plan.quick, "shorter runs: to see whether it works, not to quote");
  app.add_option("--only", plan.only, "one part of it")
      ->check(CLI::IsMember({"traffic", "attacks", "flood", "processor"}));
  app.add_option("--out", out, "where <date>-<arch>-fleet.json and .svg go; default: nowhere");
  CLI11_PARSE(app, argc, argv);

  const weir::bench::Machine machine = weir::bench::describe_machine();
  for (const auto& [what, value] : machine) fmt::print("{:<18} {}\n", what, value);
  fmt::print("\n");
  const weir::bench::FleetResults results = weir::bench::measure_fleet(plan);
  if (out.empty()) return 0;
  std::error_code error;
  std::filesystem::create_directories(out, error);
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d-%H%M", std::gmtime(&now));
  const std::string stem = fmt::format("{}-{}-fleet", date, weir::bench::architecture());
  keep(out / (stem + ".json"), fleet_json(results, machine));
  const std::string picture = fleet_chart(results);
  if (!picture.empty()) keep(out / (stem + ".svg"), picture);
  return 0;
}
