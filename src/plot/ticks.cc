#include "plot/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "plot/svg.h"
#include "plot/text.h"

namespace weir::plot {

std::vector<double> ticks_up_to(double max, size_t count) {
  if (!std::isfinite(max) || max <= 0) return {0, 1};
  const auto parts = static_cast<double>(std::max<size_t>(count, 1));
  const double power = std::pow(10, std::floor(std::log10(max / parts)));
  double step = 10 * power;
  for (const double digit : {5.0, 2.0, 1.0}) {
    if (max / (digit * power) <= parts) step = digit * power;
  }
  std::vector<double> ticks = {0};
  while (ticks.back() < max * (1 - 1e-9)) {
    ticks.push_back(step * static_cast<double>(ticks.size()));
  }
  return ticks;
}

std::vector<double> time_ticks(double max, size_t count) {
  constexpr std::array kSteps = {1.0,   2.0,   5.0,   10.0,   15.0,   30.0,   60.0,     120.0,
                                 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 21'600.0, 86'400.0};
  const auto fits = [&](double step) { return max / step <= static_cast<double>(count); };
  const auto found = std::ranges::find_if(kSteps, fits);
  const double step = found == kSteps.end() ? std::max(kSteps.back(), max / 4) : *found;
  std::vector<double> ticks;
  for (double at = 0; at <= max + 1e-9; at += step) ticks.push_back(at);
  return ticks;
}

std::vector<double> log_ticks(double min, double max) {
  std::vector<double> ticks;
  for (double power = std::pow(10, std::floor(std::log10(min))); power <= max; power *= 10) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double at = power * digit;
      if (at >= min * 0.999 && at <= max * 1.001) ticks.push_back(at);
    }
  }
  return ticks;
}

std::string time_label(double seconds, double axis_end) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (axis_end < 180) return fmt::format("{} s", whole);
  if (axis_end < 7200) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

std::string tick_label(double value) {
  std::string text = std::abs(value) < 1e-12 ? "0" : fmt::format("{:.4g}", value);
  return std::abs(value) >= 1000 ? readable(std::round(value), kThinSpace) : text;
}

std::vector<size_t> downsample(const std::vector<double>& values, size_t max_points) {
  std::vector<size_t> kept(values.size());
  std::iota(kept.begin(), kept.end(), size_t{0});
  if (values.size() <= max_points) return kept;
  kept = {0};
  const auto keep = [&kept](size_t i) {
    if (kept.back() < i) kept.push_back(i);
  };
  const size_t buckets = std::max<size_t>(1, max_points / 2);
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const size_t begin = bucket * values.size() / buckets;
    const size_t end = (bucket + 1) * values.size() / buckets;
    size_t min = begin;
    size_t max = begin;
    for (size_t i = begin; i < end; ++i) {
      if (finite(values[i]) < finite(values[min])) min = i;
      if (finite(values[i]) > finite(values[max])) max = i;
    }
    keep(std::min(min, max));
    keep(std::max(min, max));
  }
  keep(values.size() - 1);
  return kept;
}

}  // namespace weir::plot
