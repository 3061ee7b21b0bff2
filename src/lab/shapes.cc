#include "lab/shapes.h"

#include <algorithm>

#include "base/split_mix.h"
#include "base/wide.h"

namespace weir::lab {
namespace {

// Below `range`. A remainder is exact enough: all ranges are far below 2^64.
uint64_t draw(uint64_t& state, uint64_t range) {
  return base::split_mix(state) % range;
}

Traffic one_key(size_t requests) {
  Traffic traffic{.name = {}, .keys = {"client"}, .arrivals = {}};
  traffic.arrivals.reserve(requests);
  return traffic;
}

void add(Traffic& traffic, uint64_t tick, uint32_t key = 0) {
  traffic.arrivals.push_back({.at = WallTime(Millis(tick)), .cost = 1, .key = key});
}

// At least 1, so that every shape makes progress.
uint64_t percent_of(Count limit, uint64_t percent) {
  return std::max<uint64_t>(limit * percent / 100, 1);
}

uint64_t ticks(Millis duration) {
  return static_cast<uint64_t>(duration.count());
}

// `per_window` requests in each duration, at equal distances.
Traffic steady(const ShapeSettings& settings, uint64_t percent) {
  const uint64_t per_100_windows = std::max<uint64_t>(settings.limit.limit * percent, 1);
  Traffic traffic = one_key(settings.requests);
  for (uint64_t i = 0; i < settings.requests; ++i) {
    add(traffic, i * ticks(settings.limit.duration) * 100 / per_100_windows);
  }
  return traffic;
}

Traffic steady_below(const ShapeSettings& settings) {
  return steady(settings, kBelowPercent);
}
Traffic steady_above(const ShapeSettings& settings) {
  return steady(settings, kAbovePercent);
}

// Given their number, the instants of a Poisson process are independent and uniform.
std::vector<uint64_t> random_ticks(const ShapeSettings& settings, uint64_t span, uint64_t& state) {
  std::vector<uint64_t> all(settings.requests);
  for (uint64_t& tick : all) tick = draw(state, span);
  std::ranges::sort(all);
  return all;
}

// The time in which the limit admits all requests.
uint64_t span_at_the_limit(const ShapeSettings& settings) {
  return settings.requests * ticks(settings.limit.duration) / settings.limit.limit + 1;
}

Traffic poisson(const ShapeSettings& settings) {
  uint64_t state = settings.seed;
  Traffic traffic = one_key(settings.requests);
  for (const uint64_t tick : random_ticks(settings, span_at_the_limit(settings), state)) {
    add(traffic, tick);
  }
  return traffic;
}

Traffic lock_step(const ShapeSettings& settings) {
  const uint64_t per_window = percent_of(settings.limit.limit, kLockStepPercent);
  Traffic traffic = one_key(settings.requests);
  for (uint64_t i = 0; i < settings.requests; ++i) {
    add(traffic, i / per_window * ticks(settings.limit.duration));
  }
  return traffic;
}

// The limit in the last twentieth of one window and again in the first twentieth of the next; then
// nothing until the next pair of windows but one.
Traffic boundary_burst(const ShapeSettings& settings) {
  const uint64_t duration = ticks(settings.limit.duration);
  const uint64_t part = duration / 20;
  const Count limit = settings.limit.limit;
  Traffic traffic = one_key(settings.requests);
  for (uint64_t i = 0; i < settings.requests; ++i) {
    const uint64_t burst = i / limit;  // even: before the boundary; odd: after it
    const uint64_t boundary = (burst / 2 * 4 + 1) * duration;
    const uint64_t offset = i % limit * part / limit;
    add(traffic, burst % 2 == 0 ? boundary - part + offset : boundary + offset);
  }
  return traffic;
}

// On for 1.5 durations, off for 2.2. The period is no multiple of the duration, so that the bursts
// meet every phase of a window.
Traffic on_off(const ShapeSettings& settings) {
  const uint64_t duration = ticks(settings.limit.duration);
  const uint64_t on = duration * 3 / 2;
  const uint64_t period = duration * 37 / 10;
  const uint64_t per_burst = std::max<uint64_t>(settings.limit.limit * kOnPercent * 3 / 200, 1);
  Traffic traffic = one_key(settings.requests);
  for (uint64_t i = 0; i < settings.requests; ++i) {
    add(traffic, i / per_burst * period + i % per_burst * on / per_burst);
  }
  return traffic;
}

// Key k has a share of the requests in proportion to 1 / (k + 1), at random instants. The busiest
// key sends at the limit on average, so few keys ever reach it.
Traffic skewed(const ShapeSettings& settings) {
  constexpr uint64_t kWeight = 1'000'000'000;
  std::vector<uint64_t> sums(kSkewedKeys);
  uint64_t sum = 0;
  for (size_t k = 0; k < kSkewedKeys; ++k) sums[k] = sum += kWeight / (k + 1);
  uint64_t state = settings.seed;
  Traffic traffic{.name = {}, .keys = {}, .arrivals = {}};
  traffic.arrivals.reserve(settings.requests);
  constexpr uint32_t kUnused = ~uint32_t{0};
  std::vector<uint32_t> indexes(kSkewedKeys, kUnused);  // of the keys that have requests
  // The busiest key has kWeight of `sum`.
  const uint64_t span = base::mul_div(span_at_the_limit(settings), kWeight, sum) + 1;
  for (const uint64_t tick : random_ticks(settings, span, state)) {
    const auto drawn = std::ranges::upper_bound(sums, draw(state, sum)) - sums.begin();
    uint32_t& index = indexes[static_cast<size_t>(drawn)];
    if (index == kUnused) {
      index = static_cast<uint32_t>(traffic.keys.size());
      traffic.keys.push_back("client-" + std::to_string(drawn + 1));
    }
    add(traffic, tick, index);
  }
  return traffic;
}

}  // namespace

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes = {
      {"steady-below", "one key at 0.8 x the limit, evenly spaced", steady_below},
      {"steady-above", "one key at 1.5 x the limit, evenly spaced", steady_above},
      {"poisson", "one key at the limit on average, at random instants", poisson},
      {"lock-step", "1.5 x the limit at the first tick of every window", lock_step},
      {"boundary-burst", "the limit just before a window ends, and again just after",
       boundary_burst},
      {"on-off", "3 x the limit for 1.5 durations, then none for 2.2", on_off},
      {"skewed", "10,000 keys, the busiest at the limit; Zipf, at random instants", skewed},
  };
  return kShapes;
}

const Shape* find_shape(std::string_view name) {
  const auto found = std::ranges::find(shapes(), name, &Shape::name);
  return found == shapes().end() ? nullptr : &*found;
}

Traffic make_traffic(const Shape& shape, const ShapeSettings& settings) {
  Traffic traffic = shape.make(settings);
  traffic.name = shape.name;
  return traffic;
}

}  // namespace weir::lab
