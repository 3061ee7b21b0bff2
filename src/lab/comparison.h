// Decides one traffic by all six algorithms and compares the results.

#pragma once

#include <array>
#include <vector>

#include "lab/traffic.h"

namespace weir::lab {

// The order of all tables.
inline constexpr std::array kAlgorithms = {
    Algorithm::kFixedWindow, Algorithm::kSlidingWindow, Algorithm::kSlidingWindowStrict,
    Algorithm::kSlidingLog,  Algorithm::kGcra,          Algorithm::kTokenBucket};
static_assert(kAlgorithms.size() == kAlgorithmCount);

// One entry for each arrival: whether it was admitted.
using Decisions = std::vector<bool>;

[[nodiscard]] Decisions decide(const Traffic& traffic, const Limit& limit, Algorithm algorithm);

// Decisions that differ from those of sliding_log, which decides the same arrivals and counts what
// it admits itself. This is the error that all tables show, relative to the number of arrivals.
struct Differences {
  size_t wrongly_allowed = 0;  // admitted, but denied by the log
  size_t wrongly_refused = 0;  // denied, but admitted by the log

  [[nodiscard]] size_t sum() const { return wrongly_allowed + wrongly_refused; }
};
[[nodiscard]] Differences differences(const Decisions& decisions, const Decisions& log);

// The most cost that one key was admitted within (t - duration, t], for any t.
[[nodiscard]] Count worst_trailing_window(const Traffic& traffic, const Decisions& decisions,
                                          Millis duration);

struct AlgorithmResult {
  Algorithm algorithm = Algorithm::kFixedWindow;
  Decisions decisions = {};
  size_t admitted = 0;  // requests
  size_t denied = 0;    // requests
  Count worst_window = 0;
  Differences differences = {};
};

struct Comparison {
  Limit limit{};
  size_t requests = 0;
  std::vector<AlgorithmResult> results;  // in the order of kAlgorithms

  [[nodiscard]] const AlgorithmResult& of(Algorithm algorithm) const;
  [[nodiscard]] double error_percent(const AlgorithmResult& result) const;
  [[nodiscard]] double worst_ratio(const AlgorithmResult& result) const;
};

[[nodiscard]] Comparison compare(const Traffic& traffic, const Limit& limit);

}  // namespace weir::lab
