// The command line.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weir::bench {

struct Arguments {
  int repetitions = 9;
  double seconds = 0.2;  // the least that one repetition of one benchmark takes
  std::string filter = ".";
  std::filesystem::path out;        // where results are kept
  std::vector<std::string> others;  // for Google Benchmark, as given
  bool list = false;
  bool help = false;
  std::string mistake;  // what is wrong with the command line; empty if nothing
};

[[nodiscard]] Arguments parse(int argc, char** argv);
[[nodiscard]] std::string usage();

}  // namespace weir::bench
