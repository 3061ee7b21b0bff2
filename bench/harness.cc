#include "bench/harness.h"

#include <unistd.h>

#include <iostream>
#include <utility>

namespace weir::bench {

benchmark::internal::Benchmark* add(const std::string& name,
                                    std::function<void(benchmark::State&)> body) {
  const auto run = [body = std::move(body)](benchmark::State& state) {
    body(state);
    // Progress: the results are printed at the end.
    if (state.thread_index() == 0 && isatty(STDERR_FILENO)) std::cerr << '.' << std::flush;
  };
  return benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime();
}

}  // namespace weir::bench
