#include "lab/comparison.h"

#include <algorithm>
#include <cstdlib>

#include "lab/limiters.h"

namespace weir::lab {
namespace {

template <typename State>
Decisions decide_with(const Traffic& traffic, const Limit& limit) {
  std::vector<State> states(traffic.keys.size(), State(limit));
  Decisions decisions;
  decisions.reserve(traffic.arrivals.size());
  for (const Arrival& arrival : traffic.arrivals) {
    decisions.push_back(states[arrival.key].admit(arrival.at, arrival.cost));
  }
  return decisions;
}

// The admissions of one key within the trailing window: a list through `next`.
struct Trailing {
  size_t oldest = 0;
  size_t newest = 0;
  Count sum = 0;
};

}  // namespace

Decisions decide(const Traffic& traffic, const Limit& limit, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kFixedWindow: return decide_with<FixedWindow>(traffic, limit);
    case Algorithm::kSlidingWindow: return decide_with<SlidingWindow>(traffic, limit);
    case Algorithm::kSlidingWindowStrict: return decide_with<StrictWindow>(traffic, limit);
    case Algorithm::kSlidingLog: return decide_with<SlidingLog>(traffic, limit);
    case Algorithm::kGcra:
    case Algorithm::kTokenBucket: return decide_with<Backlog>(traffic, limit);
  }
  std::abort();
}

Differences differences(const Decisions& decisions, const Decisions& log) {
  Differences all;
  for (size_t i = 0; i < decisions.size(); ++i) {
    if (decisions[i] && !log[i]) ++all.wrongly_allowed;
    if (!decisions[i] && log[i]) ++all.wrongly_refused;
  }
  return all;
}

Count worst_trailing_window(const Traffic& traffic, const Decisions& decisions, Millis duration) {
  std::vector<Trailing> trailing(traffic.keys.size());
  std::vector<uint32_t> next(traffic.arrivals.size());  // the next admission of the same key
  Count worst = 0;
  for (size_t i = 0; i < decisions.size(); ++i) {
    const Arrival& arrival = traffic.arrivals[i];
    if (!decisions[i] || arrival.cost == 0) continue;
    Trailing& key = trailing[arrival.key];
    if (key.sum == 0) {
      key.oldest = i;
    } else {
      next[key.newest] = static_cast<uint32_t>(i);
    }
    key.newest = i;
    key.sum += arrival.cost;
    for (; traffic.arrivals[key.oldest].at <= arrival.at - duration;
         key.oldest = next[key.oldest]) {
      key.sum -= traffic.arrivals[key.oldest].cost;
    }
    worst = std::max(worst, key.sum);
  }
  return worst;
}

Comparison compare(const Traffic& traffic, const Limit& limit) {
  Comparison comparison{.limit = limit, .requests = traffic.arrivals.size(), .results = {}};
  const Decisions log = decide(traffic, limit, Algorithm::kSlidingLog);
  for (const Algorithm algorithm : kAlgorithms) {
    AlgorithmResult result{.algorithm = algorithm};
    result.decisions = decide(traffic, limit, algorithm);
    result.admitted = static_cast<size_t>(std::ranges::count(result.decisions, true));
    result.denied = result.decisions.size() - result.admitted;
    result.worst_window = worst_trailing_window(traffic, result.decisions, limit.duration);
    result.differences = differences(result.decisions, log);
    comparison.results.push_back(std::move(result));
  }
  return comparison;
}

const AlgorithmResult& Comparison::of(Algorithm algorithm) const {
  return *std::ranges::find(results, algorithm, &AlgorithmResult::algorithm);
}

double Comparison::error_percent(const AlgorithmResult& result) const {
  if (requests == 0) return 0;
  return 100.0 * static_cast<double>(result.differences.sum()) / static_cast<double>(requests);
}

double Comparison::worst_ratio(const AlgorithmResult& result) const {
  return static_cast<double>(result.worst_window) / static_cast<double>(limit.limit);
}

}  // namespace weir::lab
