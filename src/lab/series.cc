#include "lab/series.h"

#include <algorithm>
#include <deque>

#include "algorithms/decision.h"

namespace weir::lab {
namespace {

// Calls `use` with each request of the key in the excerpt, and its step.
template <typename Use>
void for_each(const Traffic& traffic, const Excerpt& excerpt, const Decisions* decisions,
              const Use& use) {
  size_t step = 0;
  for (size_t i = 0; i < traffic.arrivals.size(); ++i) {
    const Arrival& arrival = traffic.arrivals[i];
    if (arrival.key != excerpt.key || (decisions != nullptr && !(*decisions)[i])) continue;
    while (step < excerpt.steps && excerpt.at(step + 1) <= arrival.at) ++step;
    if (step == excerpt.steps) return;
    use(step, arrival);
  }
}

}  // namespace

Excerpt excerpt_of(const Traffic& traffic, Millis duration, int64_t windows) {
  std::vector<Count> sums(traffic.keys.size());
  for (const Arrival& arrival : traffic.arrivals) sums[arrival.key] += arrival.cost;
  Excerpt excerpt{.duration = duration};
  excerpt.key = static_cast<uint32_t>(std::ranges::max_element(sums) - sums.begin());
  const auto is_of_key = [&](const Arrival& each) { return each.key == excerpt.key; };
  const auto first = std::ranges::find_if(traffic.arrivals, is_of_key);
  excerpt.from = algorithms::position_of(first->at, duration).start();
  const WallTime last = traffic.arrivals.back().at;
  const int64_t needed = (last - excerpt.from) / duration + 1;
  excerpt.steps = static_cast<size_t>(std::min(windows, needed) * kStepsPerWindow);
  return excerpt;
}

Series cost_per_step(const Traffic& traffic, const Excerpt& excerpt, const Decisions* decisions) {
  Series series(excerpt.steps);
  for_each(traffic, excerpt, decisions, [&](size_t step, const Arrival& arrival) {
    series[step] += static_cast<double>(arrival.cost);
  });
  return series;
}

Series trailing_per_step(const Traffic& traffic, const Excerpt& excerpt,
                         const Decisions& decisions) {
  Series series(excerpt.steps);
  std::deque<Arrival> inside;
  Count sum = 0;
  size_t next = 0;  // the first step without a value for its first tick
  const auto leave_until = [&](WallTime now) {
    for (; !inside.empty() && inside.front().at <= now - excerpt.duration; inside.pop_front()) {
      sum -= inside.front().cost;
    }
  };
  const auto begin_steps_until = [&](size_t end) {
    for (; next < end; ++next) {
      leave_until(excerpt.at(next));
      series[next] = static_cast<double>(sum);
    }
  };
  for_each(traffic, excerpt, &decisions, [&](size_t step, const Arrival& arrival) {
    begin_steps_until(step + 1);
    leave_until(arrival.at);
    inside.push_back(arrival);
    sum += arrival.cost;
    series[step] = std::max(series[step], static_cast<double>(sum));
  });
  begin_steps_until(excerpt.steps);
  return series;
}

}  // namespace weir::lab
