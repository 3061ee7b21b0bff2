#include "lab/decision_cost.h"

#include <algorithm>
#include <span>
#include <vector>

#include "lab/state_bytes.h"
#include "lab/trace.h"
#include "weir/limiter.h"

namespace weir::lab {
namespace {

constexpr size_t kDecisions = 200'000;
constexpr uint64_t kMaxMemory = uint64_t{1} << 30;

// The first requests, at times that the library accepts.
std::span<const Arrival> measured_part(const Traffic& traffic) {
  const auto end =
      std::ranges::upper_bound(traffic.arrivals, WallTime(Millis(kMaxTimeMs)), {}, &Arrival::at);
  const auto count = static_cast<size_t>(end - traffic.arrivals.begin());
  return std::span(traffic.arrivals).first(std::min(count, kDecisions));
}

size_t keys_of(std::span<const Arrival> arrivals, size_t all_keys) {
  std::vector<bool> used(all_keys);
  for (const Arrival& arrival : arrivals) used[arrival.key] = true;
  return static_cast<size_t>(std::ranges::count(used, true));
}

}  // namespace

std::optional<LibraryRun> run_library(const Traffic& traffic, const Limit& limit,
                                      Algorithm algorithm) {
  const std::span<const Arrival> arrivals = measured_part(traffic);
  const size_t keys = keys_of(arrivals, traffic.keys.size());
  const size_t capacity = std::max<size_t>(64, 2 * keys);
  // The fixed parts take less than 1 KiB per key, long names at most 2 KiB, and rings and logs may
  // use three quarters of the rest.
  const uint64_t memory =
      capacity * 2048 + keys * 2 * weir_bytes(algorithm, limit.limit) + (uint64_t{1} << 20);
  if (arrivals.empty() || memory > kMaxMemory) return std::nullopt;
  auto limiter =
      Limiter::create(system_clock(), {.capacity = capacity, .memory = memory, .seed = 1});
  if (!limiter) return std::nullopt;

  Request request{.ns = "lab", .limit = limit.limit, .duration = limit.duration};
  request.algorithm = algorithm;
  if (algorithm == Algorithm::kGcra || algorithm == Algorithm::kTokenBucket) {
    request.burst = limit.burst;
  }
  LibraryRun run;
  run.decisions.reserve(arrivals.size());
  const MonoTime begin = system_clock().now().mono;
  for (const Arrival& arrival : arrivals) {
    request.identifier = traffic.keys[arrival.key];
    request.cost = arrival.cost;
    const auto verdict = limiter->check({.wall = arrival.at, .mono = begin}, request);
    if (!verdict || verdict->basis == Basis::kDegraded) return std::nullopt;
    run.decisions.push_back(verdict->admitted());
  }
  const Nanos taken = system_clock().now().mono - begin;
  run.nanos_per_decision =
      static_cast<double>(taken.count()) / static_cast<double>(run.decisions.size());
  return run;
}

}  // namespace weir::lab
