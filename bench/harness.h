// How every contestant is asked: the same loops, over the same requests.
//
// A benchmark's iteration is one decision, so that times can be compared as they are.
// Two ways of asking are told apart, because memory makes them differ by a factor:
//
//   one at a time   the place of the next request is computed from the answer to the one
//                   before, so the processor cannot begin it earlier. This is how long a
//                   caller waits.
//   overlapping     requests do not depend on each other, so the processor works on the
//                   next while it waits for memory. This is how many get done.

#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "bench/requests.h"
#include "weir/request.h"

namespace weir::bench {

// Decisions between two looks at whether time is up.
inline constexpr size_t kChunk = 64;

struct Answer {
  bool admitted = false;
  Count remaining = 0;
};

// Adds a benchmark; its time is what a clock on the wall shows.
benchmark::internal::Benchmark* add(const std::string& name,
                                    std::function<void(benchmark::State&)> body);

// A wrong answer would make its speed worthless.
inline void expect_none(benchmark::State& state, uint64_t wrong, const char* what) {
  if (wrong != 0) state.SkipWithError(what);
}

// Goes through the shared requests, `length` at a time: run(at) takes those from `at` on and
// returns where it ended.
template <typename Run>
void walk(benchmark::State& state, size_t length, const Run& run) {
  Requests& requests = Requests::shared();
  size_t at = requests.resume(state.thread_index());
  while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(length))) {
    at = run(requests.wrapped(at, length));
  }
  requests.pause(state.thread_index(), at);
}

// `ask(identifier)` decides on one request. All must be admitted.
template <typename Ask>
void ask_one_at_a_time(benchmark::State& state, const Ask& ask) {
  const Requests& requests = Requests::shared();
  uint64_t denied = 0;
  walk(state, kChunk, [&](size_t at) {
    for (size_t i = 0; i < kChunk; ++i) {
      const Answer answer = ask(requests.identifier(at));
      denied += !answer.admitted;
      // The top bit is never set, but only the counts read from memory say so.
      at += 1 + (answer.remaining >> 63);
    }
    return at;
  });
  expect_none(state, denied, "a request was denied");
}

template <typename Ask>
void ask_overlapping(benchmark::State& state, const Ask& ask) {
  const Requests& requests = Requests::shared();
  uint64_t denied = 0;
  walk(state, kChunk, [&](size_t at) {
    for (size_t i = 0; i < kChunk; ++i) denied += !ask(requests.identifier(at + i)).admitted;
    return at + kChunk;
  });
  expect_none(state, denied, "a request was denied");
}

// The same identifier again and again.
template <typename Ask>
void ask_for_one(benchmark::State& state, std::string_view identifier, const Ask& ask) {
  uint64_t denied = 0;
  while (state.KeepRunningBatch(kChunk)) {
    for (size_t i = 0; i < kChunk; ++i) {
      benchmark::DoNotOptimize(identifier);
      denied += !ask(identifier).admitted;
    }
  }
  expect_none(state, denied, "a request was denied");
}

}  // namespace weir::bench
