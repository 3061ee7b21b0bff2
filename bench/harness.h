// The loops of all benchmarks, over the same requests.
//
// One iteration is one decision, so that the times of benchmarks are comparable. There are two
// orders of execution, because memory latency makes them differ by a factor:
//
//   one at a time   The index of a request depends on the answer to the previous one, so the
//                   processor cannot start it earlier. Measures latency.
//   overlapping     Requests are independent, so the processor works on the next while it waits
//                   for memory. Measures throughput.

#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "bench/requests.h"
#include "weir/request.h"

namespace weir::bench {

// Decisions between two checks of the remaining time.
inline constexpr size_t kChunk = 64;

struct Answer {
  bool admitted = false;
  Count remaining = 0;
};

// Registers a benchmark that measures wall time.
benchmark::internal::Benchmark* add(const std::string& name,
                                    std::function<void(benchmark::State&)> body);

// Fails the benchmark if any decision was wrong.
inline void expect_zero(benchmark::State& state, uint64_t errors, const char* message) {
  if (errors != 0) state.SkipWithError(message);
}

// Iterates over the shared requests in chunks of `length`: run(at) processes the chunk that starts
// at `at` and returns the index after it.
template <typename Run>
void for_each_chunk(benchmark::State& state, size_t length, const Run& run) {
  Requests& requests = Requests::shared();
  size_t at = requests.resume(state.thread_index());
  while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(length))) {
    at = run(requests.wrapped(at, length));
  }
  requests.pause(state.thread_index(), at);
}

// `check(identifier)` decides one request. All must be admitted.
template <typename Check>
void check_one_at_a_time(benchmark::State& state, const Check& check) {
  const Requests& requests = Requests::shared();
  uint64_t denied = 0;
  for_each_chunk(state, kChunk, [&](size_t at) {
    for (size_t i = 0; i < kChunk; ++i) {
      const Answer answer = check(requests.identifier(at));
      denied += !answer.admitted;
      // The top bit is never set, but the processor must load the counts to know that.
      at += 1 + (answer.remaining >> 63);
    }
    return at;
  });
  expect_zero(state, denied, "a request was denied");
}

template <typename Check>
void check_overlapping(benchmark::State& state, const Check& check) {
  const Requests& requests = Requests::shared();
  uint64_t denied = 0;
  for_each_chunk(state, kChunk, [&](size_t at) {
    for (size_t i = 0; i < kChunk; ++i) denied += !check(requests.identifier(at + i)).admitted;
    return at + kChunk;
  });
  expect_zero(state, denied, "a request was denied");
}

// The same identifier in every request.
template <typename Check>
void check_repeatedly(benchmark::State& state, std::string_view identifier, const Check& check) {
  uint64_t denied = 0;
  while (state.KeepRunningBatch(kChunk)) {
    for (size_t i = 0; i < kChunk; ++i) {
      benchmark::DoNotOptimize(identifier);
      denied += !check(identifier).admitted;
    }
  }
  expect_zero(state, denied, "a request was denied");
}

}  // namespace weir::bench
