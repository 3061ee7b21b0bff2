#include "bench/arguments.h"

#include <cstdlib>
#include <regex>

namespace weir::bench {
namespace {

// bin/weir_bench and bench/results stand side by side in the build directory.
std::filesystem::path default_out() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path("bench/results")
               : self.parent_path().parent_path() / "bench" / "results";
}

bool is_regex(const std::string& text) {
  try {
    const std::regex regex(text, std::regex::extended);
    return true;
  } catch (const std::regex_error&) {
    return false;
  }
}

}  // namespace

std::string usage() {
  return R"(weir_bench: what a decision costs, beside peers and beside touching memory

  weir_bench [--quick] [--filter REGEX] [--repetitions N] [--seconds S] [--out DIR]
  weir_bench --list | --help

Prints the machine, runs every benchmark in random order several times, prints a table of
medians with the bar each figure is held against, and keeps the raw results as JSON and a
chart as SVG. A bar that is not met is no failure: the exit status says only whether the
measurement worked.

  --quick           3 repetitions of 0.05 s: to see whether it works, not to quote
  --repetitions N   how often each benchmark is measured (default 9)
  --seconds S       how long each measurement takes at least (default 0.2)
  --filter REGEX    only benchmarks whose name matches; rows that miss one are left out.
                    "memory" is the name of the memory measurement
  --out DIR         where <date>-<arch>.json and .svg go
                    (default: bench/results in the build directory)
  --list            names of the benchmarks
  --help            this text

--benchmark_... flags are handed to Google Benchmark.
The table is explained in docs/performance.md.
)";
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  arguments.out = default_out();
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    std::string value;
    const size_t equals = name.find('=');
    const bool joined = equals != std::string::npos;
    if (name.starts_with("--benchmark_")) {
      arguments.others.push_back(name);
      continue;
    }
    if (joined) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == "--help" || name == "-h") {
      arguments.help = true;
      continue;
    }
    if (name == "--list") {
      arguments.list = true;
      continue;
    }
    if (name == "--quick") {
      arguments.repetitions = 3;
      arguments.seconds = 0.05;
      continue;
    }
    if (!joined && i + 1 < argc) value = argv[++i];
    char* end = nullptr;
    bool right = !value.empty();
    if (name == "--filter") {
      arguments.filter = value;
    } else if (name == "--out") {
      arguments.out = value;
    } else if (name == "--repetitions") {
      arguments.repetitions = static_cast<int>(std::strtol(value.c_str(), &end, 10));
      right = right && *end == '\0' && arguments.repetitions > 0;
    } else if (name == "--seconds") {
      arguments.seconds = std::strtod(value.c_str(), &end);
      right = right && *end == '\0' && arguments.seconds > 0;
    } else {
      arguments.mistake = "unknown flag " + name;
      break;
    }
    right = right && (name != "--filter" || is_regex(value));
    if (!right) {
      arguments.mistake = name + " cannot be \"" + value + "\"";
      break;
    }
  }
  return arguments;
}

}  // namespace weir::bench
