#include "lab/published.h"

#include <algorithm>
#include <cstdlib>

#include "lab/limiters.h"
#include "lab/shapes.h"
#include "weir/limiter.h"

namespace weir::lab {
namespace {

constexpr int64_t kIntervalMs = 100;  // T at 10 a second
constexpr int64_t kBurst = 10;

template <typename Admit>
Saturation saturated(Schedule schedule, const Admit& admit) {
  Saturation result;
  for (int64_t tick = schedule.from_ms; tick <= schedule.to_ms; ++tick) {
    while (admit(tick)) ++result.admitted;
    if (tick == schedule.from_ms) result.at_once = result.admitted;
  }
  return result;
}

enum class Passes : uint8_t { kAtOrAfter, kOnlyAfter };

// The formula as it is usually written, in whole milliseconds, without checks.
struct Textbook {
  int64_t tolerance_ms = 0;
  Passes passes = Passes::kAtOrAfter;
  int64_t tat_ms = 0;

  bool admit(int64_t now_ms) {
    const int64_t earliest = tat_ms - tolerance_ms;
    if (passes == Passes::kAtOrAfter ? now_ms < earliest : now_ms <= earliest) return false;
    tat_ms = std::max(now_ms, tat_ms) + kIntervalMs;
    return true;
  }
};

Saturation saturate_textbook(Textbook formula, Schedule schedule) {
  return saturated(schedule, [&](int64_t tick) { return formula.admit(tick); });
}

template <typename State>
Saturation saturate_with(Schedule schedule) {
  State state(kPublishedLimit);
  return saturated(schedule, [&](int64_t tick) { return state.admit(WallTime(Millis(tick)), 1); });
}

}  // namespace

std::vector<GcraForm> gcra_forms(Schedule schedule) {
  constexpr int64_t kWhole = kBurst * kIntervalMs;
  constexpr int64_t kLessOne = (kBurst - 1) * kIntervalMs;
  const auto textbook = [schedule](int64_t tolerance_ms, Passes passes) {
    return saturate_textbook({.tolerance_ms = tolerance_ms, .passes = passes}, schedule);
  };
  return {
      {"burst x T", ">=", textbook(kWhole, Passes::kAtOrAfter)},
      {"burst x T", ">", textbook(kWhole, Passes::kOnlyAfter)},
      {"(burst - 1) x T", ">", textbook(kLessOne, Passes::kOnlyAfter)},
      {"(burst - 1) x T", ">=", textbook(kLessOne, Passes::kAtOrAfter)},
      {"Weir", ">=", saturate(Algorithm::kGcra, schedule)},
  };
}

Saturation burst_of_zero() {
  return saturate_textbook({.tolerance_ms = -kIntervalMs}, kFromStart);
}

std::string burst_of_zero_error() {
  auto limiter = Limiter::create(system_clock(), {.capacity = 64, .seed = 1});
  if (!limiter) return limiter.error().detail;
  const auto verdict = limiter->check({.ns = "lab",
                                       .identifier = "client",
                                       .limit = kPublishedLimit.limit,
                                       .duration = kPublishedLimit.duration,
                                       .algorithm = Algorithm::kGcra,
                                       .burst = 0});
  return verdict ? "" : verdict.error().detail + ": " + verdict.error().fix;
}

Saturation saturate(Algorithm algorithm, Schedule schedule) {
  switch (algorithm) {
    case Algorithm::kFixedWindow: return saturate_with<FixedWindow>(schedule);
    case Algorithm::kSlidingWindow: return saturate_with<SlidingWindow>(schedule);
    case Algorithm::kSlidingWindowStrict: return saturate_with<StrictWindow>(schedule);
    case Algorithm::kSlidingLog: return saturate_with<SlidingLog>(schedule);
    case Algorithm::kGcra:
    case Algorithm::kTokenBucket: return saturate_with<Backlog>(schedule);
  }
  std::abort();
}

Saturation saturate_with_fraction(Schedule schedule) {
  TwoCells cells;
  return saturated(schedule, [&](int64_t tick) {
    const auto at = algorithms::position_of(WallTime(Millis(tick)), kPublishedLimit.duration);
    const algorithms::WindowCounts& counts = cells.at(at);
    // All terms times the width, so that the fraction is exact.
    const auto width = static_cast<uint64_t>(at.width.count());
    const auto rest = static_cast<uint64_t>((at.width - at.offset).count());
    if ((counts.current + 1) * width + counts.previous * rest > kPublishedLimit.limit * width) {
      return false;
    }
    cells.charge(1);
    return true;
  });
}

Traffic two_minutes() {
  Traffic traffic{.name = "two minutes", .keys = {"client"}, .arrivals = {}};
  for (int i = 0; i < 99; ++i) traffic.arrivals.push_back({.at = WallTime(Millis(59'000))});
  for (int i = 0; i < 100; ++i) traffic.arrivals.push_back({.at = WallTime(Millis(61'000))});
  return traffic;
}

std::vector<HeadroomError> errors_by_headroom() {
  constexpr Count kMean = 100;  // requests of the busiest key in a window
  const ShapeSettings settings{.limit = {.limit = kMean, .duration = Millis(1000), .burst = kMean},
                               .requests = 2'000'000,
                               .seed = 1};
  const Traffic traffic = make_traffic(*find_shape("skewed"), settings);
  std::vector<HeadroomError> all;
  for (const uint64_t percent : {100, 110, 120, 130, 133, 140, 150}) {
    const Limit limit{.limit = kMean * percent / 100, .duration = Millis(1000), .burst = 1};
    all.push_back({.percent = percent,
                   .requests = traffic.arrivals.size(),
                   .differences = differences(decide(traffic, limit, Algorithm::kSlidingWindow),
                                              decide(traffic, limit, Algorithm::kSlidingLog))});
  }
  return all;
}

}  // namespace weir::lab
