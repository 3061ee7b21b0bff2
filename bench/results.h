// All measured times, their medians, and ratios of medians with the range of the ratios within
// repetitions.

#pragma once

#include <benchmark/benchmark.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/arguments.h"
#include "bench/machine.h"
#include "bench/memory_use.h"

namespace weir::bench {

// The time of one decision in each repetition. With several threads, wall time divided by the
// decisions of all threads.
using Series = std::vector<double>;  // nanoseconds

struct Ratio {
  double of_medians = 0;
  double min = 0;
  double max = 0;
};

// Collects the reports of Google Benchmark. The key is the name of the benchmark, with " x2"
// appended if two threads ran it.
class Results : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override;

  void set_memory(const std::optional<MemoryUses>& measured);

  [[nodiscard]] std::optional<double> median(const std::string& name) const;
  [[nodiscard]] std::optional<Ratio> ratio(const std::string& over, const std::string& under) const;
  [[nodiscard]] const std::map<std::string, Series>& all() const { return series_; }
  [[nodiscard]] const std::optional<MemoryUses>& memory() const { return memory_; }
  [[nodiscard]] const std::vector<std::string>& errors() const { return errors_; }

 private:
  std::optional<MemoryUses> memory_;
  std::map<std::string, Series> series_;
  std::vector<std::string> errors_;
};

[[nodiscard]] std::string to_json(const Results& results, const Machine& machine,
                                  const Arguments& arguments);

}  // namespace weir::bench
