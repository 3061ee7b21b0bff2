// Axis ticks and downsampling.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weir::plot {

// Multiples of 1, 2 or 5 times a power of ten, from 0 to at least `max`; at least two ticks, about
// `count` of them.
[[nodiscard]] std::vector<double> ticks_up_to(double max, size_t count);

// From 0 to `max` seconds, at most about `count`, at steps such as 1, 15 or 60 seconds.
[[nodiscard]] std::vector<double> time_ticks(double max, size_t count);

// 1, 2 and 5 times the powers of ten between `min` and `max`; both are positive.
[[nodiscard]] std::vector<double> log_ticks(double min, double max);

// "90 s", "2:30" or "1:05 h", depending on the end of the axis.
[[nodiscard]] std::string time_label(double seconds, double axis_end);

// "2.5", or with separated thousands "12 000".
[[nodiscard]] std::string tick_label(double value);

// Ascending indexes of the values to draw on `max_points` points: the minimum and the maximum of
// each bucket and both ends; all indexes if the values fit.
[[nodiscard]] std::vector<size_t> downsample(const std::vector<double>& values, size_t max_points);

}  // namespace weir::plot
