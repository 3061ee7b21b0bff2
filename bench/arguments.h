// The command line of weir_bench.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weir::bench {

struct Arguments {
  int repetitions = 9;
  double seconds = 0.2;  // minimum duration of one repetition
  std::string filter = ".";
  std::filesystem::path out;        // directory for the results
  std::vector<std::string> others;  // flags for Google Benchmark
  bool list = false;
  bool help = false;
  std::string error;  // in the command line; empty: none
};

[[nodiscard]] Arguments parse(int argc, char** argv);
[[nodiscard]] std::string usage();
// Whether the filter matches the name of a benchmark.
[[nodiscard]] bool is_chosen(const std::string& name, const Arguments& arguments);

}  // namespace weir::bench
