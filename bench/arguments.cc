#include "bench/arguments.h"

#include <regex.h>

#include <cstdlib>

namespace weir::bench {
namespace {

// The build directory contains bin/weir_bench and bench/results.
std::filesystem::path default_out() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path("bench/results")
               : self.parent_path().parent_path() / "bench" / "results";
}

// With the functions of POSIX: std::regex takes five seconds to compile.
class Regex {
 public:
  explicit Regex(const std::string& text)
      : valid_(regcomp(&compiled_, text.c_str(), REG_EXTENDED | REG_NOSUB) == 0) {}
  ~Regex() {
    if (valid_) regfree(&compiled_);
  }
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  [[nodiscard]] bool valid() const { return valid_; }
  [[nodiscard]] bool matches(const std::string& name) const {
    return valid_ && regexec(&compiled_, name.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t compiled_{};
  bool valid_;
};

}  // namespace

bool is_chosen(const std::string& name, const Arguments& arguments) {
  return Regex(arguments.filter).matches(name);
}

std::string usage() {
  return R"(weir_bench: measure the cost of a decision, beside peers and plain memory access

  weir_bench [--quick | --smoke] [--filter REGEX] [--repetitions N] [--seconds S] [--out DIR]
  weir_bench --list | --help

Prints the machine, runs all benchmarks several times in random order, prints a table of
medians with their targets, and writes the raw results as JSON and a chart as SVG. A missed
target is not a failure: the exit status only says whether the measurement worked.

  --quick           3 repetitions of 0.05 s, not a measurement
  --smoke           run everything for an instant: checks that the benchmark works,
                    measures nothing
  --repetitions N   repetitions of each benchmark (default: 9)
  --seconds S       minimum duration of a repetition (default: 0.2)
  --filter REGEX    run only benchmarks whose names match; leaves out incomplete rows.
                    "memory" is the name of the memory measurement
  --out DIR         directory for <date>-<arch>.json and .svg
                    (default: bench/results in the build directory)
  --list            print the names of the benchmarks
  --help            print this help

--benchmark_... flags are passed to Google Benchmark.
docs/performance.md explains the table.
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
    if (name == "--smoke") {
      arguments.repetitions = 1;
      arguments.seconds = 0.001;
      continue;
    }
    if (!joined && i + 1 < argc) value = argv[++i];
    char* end = nullptr;
    bool valid = !value.empty();
    if (name == "--filter") {
      arguments.filter = value;
    } else if (name == "--out") {
      arguments.out = value;
    } else if (name == "--repetitions") {
      arguments.repetitions = static_cast<int>(std::strtol(value.c_str(), &end, 10));
      valid = valid && *end == '\0' && arguments.repetitions > 0;
    } else if (name == "--seconds") {
      arguments.seconds = std::strtod(value.c_str(), &end);
      valid = valid && *end == '\0' && arguments.seconds > 0;
    } else {
      arguments.error = "unknown flag " + name;
      break;
    }
    valid = valid && (name != "--filter" || Regex(value).valid());
    if (!valid) {
      arguments.error = "invalid value \"" + value + "\" for " + name;
      break;
    }
  }
  return arguments;
}

}  // namespace weir::bench
